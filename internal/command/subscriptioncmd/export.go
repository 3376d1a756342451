package subscriptioncmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// subExportCmd writes subscriptions in the format that sub import reads.
type subExportCmd struct {
	NS     string `name:"ns" short:"n" help:"Namespace; default: all." placeholder:"NAME"`
	Format string `help:"Format: yaml or ndjson." enum:"yaml,ndjson" default:"yaml"`
}

// Help describes the content of an export.
func (*subExportCmd) Help() string {
	return `Definitions are written to stdout in the order of their IDs, as sluice sub import reads them:

  sluice sub export --ns acme > acme.yaml

Signing secrets are not in an export: an import elsewhere generates new ones. Neither are client secrets and private keys of
endpoints, which an import elsewhere requires. The headers of endpoints are. Neither are
positions in the log: an import begins at "start", which for "new" is the end of the log. Cancelled subscriptions and those of modules are left out.`
}

// exported is a definition. Its JSON is a body of POST /v1/subscriptions, in one of two shapes:
// that with a target has the fields from Target on.
type exported struct {
	client.SubscriptionSpec

	Target      string   `json:"target,omitempty"`
	OnChange    string   `json:"on_change,omitempty"`
	WebhookURL  string   `json:"webhook_url,omitempty"`
	EventFilter []string `json:"event_filter,omitempty"`
	Scope       string   `json:"scope,omitempty"`
}

// Run writes the definitions, page by page. The order of IDs is stable, so two exports can be
// compared. An interrupted export has written whole definitions only. Subscriptions that cannot be
// defined are named on stderr, and make the exit status 1 after the others are written.
func (c *subExportCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	q := client.SubscriptionsQuery{Namespace: c.NS, ByID: true, Limit: 1000}
	n, left := 0, 0
	for {
		page, err := api.Subscriptions(ctx, q)
		if err != nil {
			return err
		}
		wrote, without, err := c.page(s, page.Items)
		if err != nil {
			return err
		}
		n, left = n+wrote, left+without
		// A server that repeats a cursor would make the export endless.
		if page.Next == "" || page.Next == q.Cursor {
			break
		}
		q.Cursor = page.Next
	}
	s.Complain("Exported %d subscriptions without their secrets.", n)
	if left > 0 {
		return fmt.Errorf("%d subscriptions were left out", left)
	}
	return nil
}

// page writes the definitions of a page, and returns how many it wrote and how many it could not
// write.
func (c *subExportCmd) page(s *terminal.Session, subs []sluice.Subscription) (wrote, without int, err error) {
	var text bytes.Buffer
	for i := range subs {
		if subs[i].State == sluice.Cancelled {
			continue
		}
		spec, err := exportedOf(&subs[i])
		if err != nil {
			s.Complain("%s is left out: %v", subs[i].ID, err)
			without++
			continue
		}
		if err := c.write(&text, spec); err != nil {
			return wrote, without, fmt.Errorf("%s: %w", subs[i].ID, err)
		}
		wrote++
	}
	return wrote, without, s.PrintText(text.Bytes(), nil)
}

// write appends a definition.
func (c *subExportCmd) write(to *bytes.Buffer, spec exported) error {
	line, err := terminal.EncodeJSON(spec, "")
	if err != nil || c.Format == "ndjson" {
		_, _ = to.Write(line) // it never fails
		return err
	}
	document, err := yaml.JSONToYAML(line)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	to.WriteString("---\n")
	_, _ = to.Write(document) // see above
	return nil
}

// exportedOf returns the definition that creates such a subscription, or an error if no definition
// can.
func exportedOf(sub *sluice.Subscription) (exported, error) {
	if sub.Module != "" {
		return exported{}, fmt.Errorf("the approval of the module %s creates it", sub.Module)
	}
	if sluice.IsHidden(sub.Endpoint.URL) {
		return exported{}, errors.New("its URL is shown to its owner only")
	}
	e := exported{SubscriptionSpec: client.SubscriptionSpec{
		ID: sub.ID, ReplayWindow: sub.ReplayWindow, Description: sub.Description, Metadata: sub.Metadata, IdempotencyKey: sub.IdempotencyKey,
	}}
	if !sub.Enabled {
		e.Enabled = &sub.Enabled
	}
	if sub.Target != "" {
		return e, e.fillTarget(sub)
	}
	e.Namespace, e.Mode, e.Pattern, e.Filter, e.Start, e.Policy = sub.Namespace, sub.Mode, sub.Pattern, sub.Filter, sub.Start, &sub.Policy
	e.Endpoint = sluice.Endpoint{URL: sub.Endpoint.URL, Headers: sub.Endpoint.Headers, Handshake: sub.Endpoint.Handshake, Auth: sub.Endpoint.Auth, TLS: sub.Endpoint.TLS}
	return e, nil
}

// fillTarget fills in the shape with a target, which has no policy. It returns an error if the
// subscription was changed in a way that this shape cannot describe.
func (e *exported) fillTarget(sub *sluice.Subscription) error {
	e.Target, e.OnChange, e.WebhookURL, e.EventFilter = sub.Target, "webhook", sub.Endpoint.URL, sub.Filter.Types
	e.Scope = sub.Namespace
	if scope, ok := strings.CutPrefix(sub.Target, "scope:"); ok && scope == sub.Namespace {
		e.Scope = ""
	}
	as := sluice.Subscription{Mode: sluice.Push, Policy: sluice.Policy{
		Retry: sluice.Retry{Preset: sluice.PresetShort}, Envelope: sluice.EnvelopeFact, Timeout: sluice.Duration(10 * time.Second),
	}}
	as.SetDefaults()
	as.Filter.Types = sub.Filter.Types
	if entity, ok := strings.CutPrefix(sub.Target, "entity:"); ok {
		as.Filter.Subjects = []string{entity}
	}
	if !reflect.DeepEqual(as.Policy, sub.Policy) || !reflect.DeepEqual(as.Filter, sub.Filter) || len(sub.Endpoint.Headers) > 0 || sub.Endpoint.Handshake ||
		sub.Endpoint.Auth != nil || sub.Endpoint.TLS != nil {
		return errors.New("it has a target, and was changed since it was created")
	}
	return nil
}
