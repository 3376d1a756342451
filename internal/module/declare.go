package module

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// checkDeclaration validates the members output, publish and read of a handler. It also brings the
// patterns into canonical form.
func (h *Handler) checkDeclaration() error {
	switch {
	case h.Output != OutputLog && h.Output != OutputEvents:
		return fmt.Errorf("output %q: use %q or %q", h.Output, OutputLog, OutputEvents)
	case len(h.Publish) > maxPublish || len(h.Read) > maxPublish:
		return fmt.Errorf("it has %d publish and %d read; at most %d of each are allowed", len(h.Publish), len(h.Read), maxPublish)
	case h.Output == OutputEvents && len(h.Publish) == 0:
		return errors.New("output is events, but publish is missing: list the paths and types of these events")
	case len(h.Publish) > 0 && h.Output == OutputLog && !h.Network:
		return fmt.Errorf("publish: set output to %q, or network to true for requests to the API", OutputEvents)
	case len(h.Read) > 0 && !h.Network:
		return errors.New("read: set network to true, which requests to the API need")
	}
	for i := range h.Publish {
		if err := checkPublish(&h.Publish[i]); err != nil {
			return fmt.Errorf("publish[%d]: %w", i, err)
		}
	}
	for i, pattern := range h.Read {
		var err error
		if h.Read[i], err = checkPattern(pattern); err != nil {
			return fmt.Errorf("read[%d]: %w", i, err)
		}
	}
	return nil
}

func checkPublish(p *sluice.Publishable) (err error) {
	if p.Pattern, err = checkPattern(p.Pattern); err != nil {
		return err
	}
	if len(p.Types) > maxPublish {
		return fmt.Errorf("it has %d types; at most %d are allowed", len(p.Types), maxPublish)
	}
	for _, name := range p.Types {
		if err := sluice.CheckTypeName(strings.TrimSuffix(name, ".*")); err != nil {
			return fmt.Errorf("types: %w", err)
		}
	}
	return nil
}

// checkPattern returns a pattern in canonical form. It refuses patterns of the server's own paths.
func checkPattern(p sluice.Pattern) (sluice.Pattern, error) {
	pattern, err := sluice.ParsePattern(string(p))
	if err != nil {
		return "", fmt.Errorf("pattern: %w", err)
	}
	if err := sluice.Path(pattern).CheckReserved(); err != nil {
		return "", fmt.Errorf("pattern: %w", err)
	}
	return pattern, nil
}
