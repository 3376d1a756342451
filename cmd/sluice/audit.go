package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// auditCmd shows the ledger.
type auditCmd struct {
	NS       string `name:"ns" help:"Filter by namespace." placeholder:"NAME"`
	Resource string `help:"Filter by ID or name of the changed resource." placeholder:"ID"`
	Action   string `help:"Filter by action, such as subscription.pause, or by kind: subscription.*." placeholder:"ACTION"`
	Actor    string `help:"Filter by principal; system is the server itself." placeholder:"NAME"`
	Since    string `help:"Earliest time: RFC 3339, or an age such as 10m or 7d." placeholder:"WHEN"`
	Until    string `help:"Latest time: RFC 3339, or an age." placeholder:"WHEN"`
	Limit    int    `aliases:"last" help:"Maximum number of results; 0: all. --last is another name." default:"100"`
}

// Run shows the entries, newest first. It needs the verb admin on --ns or, without --ns, on
// everything. A failed change has two entries: the intent, and its failure, which names the intent.
func (c *auditCmd) Run(ctx context.Context, s *terminal.Session) error {
	since, err := cmdkit.TimeOrAgo("since", c.Since)
	if err != nil {
		return err
	}
	until, err := cmdkit.TimeOrAgo("until", c.Until)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.LedgerEntry], error) {
		return api.Audit(ctx, client.AuditQuery{
			Namespace: c.NS, Resource: c.Resource, Action: c.Action, Actor: c.Actor,
			Since: since, Until: until, Limit: most, Cursor: cursor,
		})
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i := range all {
			e := &all[i]
			rows[i] = []string{terminal.FormatTime(e.At), e.Actor, cmdkit.Because(e.Action, failureOfEntry(e)), terminal.OrDash(e.Namespace), e.Resource, whatChanged(e)}
		}
		return s.Table("TIME | ACTOR | ACTION | NAMESPACE | RESOURCE | CHANGE", rows)
	})
}

// failureOfEntry returns "failed: CODE" for an entry about a failure; "" for others.
func failureOfEntry(e *sluice.LedgerEntry) string {
	if e.Outcome != sluice.ChangeFailed {
		return ""
	}
	return "failed: " + string(e.Error)
}

// whatChanged describes the change of each field as "path: old → new", ordered by name. A new
// resource is "new", a deleted one "gone". Unchanged fields are not in an entry.
func whatChanged(e *sluice.LedgerEntry) string {
	switch {
	case e.Outcome == sluice.ChangeFailed:
		return "of " + e.Intent
	case e.Old == nil:
		return "new"
	case e.New == nil:
		return "gone"
	}
	old, now := fieldsOf(e.Old), fieldsOf(e.New)
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(union(old, now))) {
		changes = append(changes, fmt.Sprintf("%s: %s → %s", name, terminal.OrDash(old[name]), terminal.OrDash(now[name])))
	}
	return terminal.OrDash(strings.Join(changes, ", "))
}

// union returns the names of both; the values do not matter.
func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// fieldsOf returns the values in a JSON object by their dotted names. Lists are one value.
// {"policy":{"window":8}} is the field "policy.window" with the value 8.
func fieldsOf(object json.RawMessage) map[string]string {
	fields := map[string]string{}
	var walk func(name string, value json.RawMessage)
	walk = func(name string, value json.RawMessage) {
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) != nil || len(inner) == 0 && name != "" {
			fields[name] = string(bytes.Trim(value, `"`))
			return
		}
		for key, v := range inner {
			walk(strings.TrimPrefix(name+"."+key, "."), v)
		}
	}
	walk("", object)
	return fields
}
