package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
)

type settingsCmd struct {
	Changed bool `help:"Only settings that differ from their defaults."`
}

// Run lists the settings of the server that answers. Secrets are left out by the server. Replicas
// may differ; the list is that of one.
func (c *settingsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	settings, err := api.Settings(ctx)
	if err != nil {
		return err
	}
	if c.Changed {
		settings = slices.DeleteFunc(settings, func(one sluice.Setting) bool { return !one.Changed })
	}
	return s.Show(settings, func() error {
		rows := make([][]string, len(settings))
		for i, one := range settings {
			value, err := settingText(one.Value)
			if err != nil {
				return err
			}
			normal, err := settingText(one.Default)
			if err != nil {
				return err
			}
			rows[i] = []string{one.Name, value, normal}
		}
		return s.Table("SETTING | VALUE | DEFAULT", rows)
	})
}

// settingText returns a text as it is, and any other value as JSON.
func settingText(value any) (string, error) {
	if text, ok := value.(string); ok {
		return text, nil
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("setting: %w", err)
	}
	return string(encoded), nil
}
