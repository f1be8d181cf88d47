package ui

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// quietZone is how many blank modules must surround a QR code.
const quietZone = 4

// QR draws text as a QR code that can be read when 15 % of it is lost: an SVG to be written into a
// page, black on white regardless of the page's colours, because not every scanner reads the
// inverse.
func QR(text string) (template.HTML, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return "", fmt.Errorf("QR code of %d bytes: %w", len(text), err)
	}
	size := code.Bounds().Dx()
	var path strings.Builder
	for y := range size {
		for x := 0; x < size; x++ {
			start := x
			for x < size && dark(code.At(x, y)) {
				x++
			}
			if x > start {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", start+quietZone, y+quietZone, x-start, x-start)
			}
		}
	}
	all := strconv.Itoa(size + 2*quietZone)
	return template.HTML(`<svg class="qr-code" viewBox="0 0 ` + all + ` ` + all + //nolint:gosec // numbers only
		`" shape-rendering="crispEdges" aria-hidden="true"><rect width="` + all + `" height="` + all +
		`" fill="#fff"/><path fill="#000" d="` + path.String() + `"/></svg>`), nil
}

func dark(c interface{ RGBA() (r, g, b, a uint32) }) bool {
	r, _, _, _ := c.RGBA()
	return r < 0x8000
}
