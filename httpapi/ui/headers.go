package ui

import (
	"fmt"
	"net/http"
	"net/url"
)

// Secure keeps a page out of caches, frames, indexes and referrers, and lets it load only this
// program's files. The address of a page can be a secret, so no request may send it to another
// site.
func Secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), "+
		"publickey-credentials-get=(), serial=(), usb=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// Origins distinguishes forms of the program's own pages from those of other
// sites.
type Origins struct{ protection *http.CrossOriginProtection }

// NewOrigins accepts forms from the origin of the public URL even where a
// proxy sends another Host. An empty URL names none.
func NewOrigins(publicURL string) (*Origins, error) {
	o := &Origins{http.NewCrossOriginProtection()}
	if publicURL == "" {
		return o, nil
	}
	u, err := url.Parse(publicURL)
	if err == nil {
		err = o.protection.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("public URL %q: %w", publicURL, err)
	}
	return o, nil
}

// Check returns an error if a request that changes something is not from a page of this program.
// With the referrer policy of Secure a browser names the origin of its form "null"; where it sends
// no Sec-Fetch-Site either, as on plain http to an address, Check lets it pass, so a form needs a
// token as well.
func (o *Origins) Check(r *http.Request) error {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil
	}
	return o.protection.Check(r)
}
