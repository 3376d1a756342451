//go:build ignore

// Command promrules checks a file of Prometheus rules and a Grafana dashboard with Prometheus's own parsers. These
// are no part of the product: make rules runs it with prometheus.mod, and go mod tidy does not see it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: promrules RULES.yaml DASHBOARD.json")
		os.Exit(2)
	}
	if err := errors.Join(checkRules(os.Args[1]), checkDashboard(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func checkRules(file string) error {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Annotations["summary"] == "" || !strings.Contains(r.Annotations["runbook"], "`sluice ") {
				errs = append(errs, fmt.Errorf("%s: a summary and a runbook with a command are missing", r.Alert))
			}
		}
	}
	return errors.Join(errs...)
}

// dashboard is what the check reads of a dashboard.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func checkDashboard(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$namespace", "a", "$subscription", "b")
	var errs []error
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(t.Expr)); err != nil {
				errs = append(errs, fmt.Errorf("panel %s: %s: %w", p.Title, t.Expr, err))
			}
		}
	}
	return errors.Join(errs...)
}
