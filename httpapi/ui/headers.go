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

// Origins tells forms of the program's own pages from those of other sites. Forms from the origin of
// the public URL are accepted even where a proxy sends another Host. An empty URL names none.
func Origins(publicURL string) (*http.CrossOriginProtection, error) {
	origins := http.NewCrossOriginProtection()
	if publicURL == "" {
		return origins, nil
	}
	u, err := url.Parse(publicURL)
	if err == nil {
		err = origins.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("public URL %q: %w", publicURL, err)
	}
	return origins, nil
}
