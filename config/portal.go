package config

import (
	"errors"
	"net/url"
)

// Portal configures the page for tenants, at /portal/.
type Portal struct {
	// FrameAncestors are the origins whose pages may show the portal in a frame, such as
	// https://app.example.com; none.
	FrameAncestors []string `json:"frame_ancestors" env:"FRAME_ANCESTORS"`
	// Title is the name of the portal in its heading; Webhooks.
	Title string `json:"title" env:"TITLE"`
}

const maxTitle = 64 // bytes

func (p Portal) check() error {
	errs := []error{when(p.Title == "" || len(p.Title) > maxTitle, "portal.title: write 1 to %d bytes", maxTitle)}
	for _, origin := range p.FrameAncestors {
		errs = append(errs, when(!isOrigin(origin), "portal.frame_ancestors %q: write an origin such as https://app.example.com, without a path", origin))
	}
	return errors.Join(errs...)
}

// isOrigin reports whether a text is an origin as browsers write it. Any other text would end the
// Content-Security-Policy early, or never match.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return false
	}
	for _, r := range u.Host {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != ':' && r != '[' && r != ']' {
			return false
		}
	}
	return u.Scheme+"://"+u.Host == text
}
