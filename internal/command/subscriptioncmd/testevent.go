package subscriptioncmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// subTestCmd tests a subscription. Event excludes the other fields. Without Event and Path a
// request is sent, with the example of Type.
type subTestCmd struct {
	ID    string `arg:"" help:"Subscription."`
	Event string `help:"Send nothing: say whether the pattern and the filter match the event with this ID or sequence." placeholder:"ID"`
	Path  string `help:"Send nothing: say whether they match an event on this path that is not stored." placeholder:"PATH"`
	Type  string `help:"Type of that event; default: message. Without --path: send the example of this type in the catalogue." placeholder:"TYPE"`
	Body  string `arg:"" optional:"" name:"data" help:"Its data; - for stdin."`
}

// Help shows examples.
func (*subTestCmd) Help() string {
	return `Examples:

  sluice sub test orders
  sluice sub test orders --type order.paid
  sluice sub test orders --event pay-1
  sluice sub test orders --path /orders/42 --type order.paid '{"total":7}'

With a template of the body (policy.body), the body is printed, too. Without --event and --path, the endpoint receives a signed sample event, or with --type the first example of that type in the catalogue.`
}

// Run sends a sample, or tests the filter. It returns an error unless the endpoint accepts the
// sample, or the event matches. A sample is one attempt without retries, which is not recorded as a
// delivery. --event and --path send nothing and change nothing.
func (c *subTestCmd) Run(ctx context.Context, s *terminal.Session) error {
	switch {
	case c.Event != "" && (c.Path != "" || c.Type != "" || c.Body != ""):
		return terminal.Usagef("--event names a stored event; --path, --type and data describe another one")
	case c.Path == "" && c.Body != "":
		return terminal.Usagef("a path is required with data, such as --path /orders/42")
	}
	api, err := s.Client()
	switch {
	case err != nil:
		return err
	case c.Event != "":
		return c.match(ctx, s, api, client.MatchRequest{EventID: c.Event})
	case c.Path == "":
		return c.send(ctx, s, api)
	}
	ev, err := cmdkit.EventOf(s, c.Path, c.Body)
	if err != nil {
		return err
	}
	short := map[string]any{"path": ev.Path, "data": string(ev.Data)}
	if ev.IsJSON() {
		short["data"] = json.RawMessage(ev.Data)
	}
	if c.Type != "" {
		short["type"] = c.Type
	}
	event, err := json.Marshal(short)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return c.match(ctx, s, api, client.MatchRequest{Event: event})
}

// send makes the server send a sample event to the endpoint. The exit status is 1 for any outcome
// except delivered; the attempt is printed first. Code Unprocessable for a type without an example
// in the catalogue.
func (c *subTestCmd) send(ctx context.Context, s *terminal.Session, api *client.Client) error {
	send := api.TestSubscription
	if c.Type != "" {
		send = func(ctx context.Context, id string) (sluice.Attempt, error) {
			return api.TestSubscriptionWith(ctx, id, c.Type)
		}
	}
	a, err := send(ctx, c.ID)
	if err != nil {
		return err
	}
	err = s.Show(a, func() error {
		return s.Facts("outcome", string(a.Outcome), "status", cmdkit.HTTPStatus(a.Status),
			"duration", a.Duration.Std().Round(time.Microsecond).String(), "error", a.Error, "response", a.Response)
	})
	if err == nil && a.Outcome != sluice.Delivered {
		err = sluice.Errorf(sluice.Unavailable, "the endpoint of %s did not accept the test event: %s", c.ID, cmp.Or(a.Error, string(a.Outcome)))
	}
	return err
}

// match prints whether an event matches, and any warnings. Matches is nil if the server was given
// no event. The body is that of the template, if there is one.
func (c *subTestCmd) match(ctx context.Context, s *terminal.Session, api *client.Client, req client.MatchRequest) error {
	is, err := api.MatchSubscription(ctx, c.ID, req)
	if err != nil {
		return err
	}
	matches := is.Matches != nil && *is.Matches
	err = s.Show(is, func() error {
		if matches {
			err = s.Say("%s", is.Explanation)
		}
		if is.Body != "" {
			err = cmp.Or(err, s.Say("body (%s):\n%s", is.ContentType, is.Body))
		}
		warn(s, is.Warnings)
		return err
	})
	if err == nil && !matches {
		err = sluice.Errorf(sluice.Unprocessable, "%s would not get this event. %s", c.ID, is.Explanation)
	}
	return err
}

// warnOfNames prints warnings about a new subscription's filter. If it fails, it also prints only a
// warning, because the subscription exists.
func warnOfNames(ctx context.Context, s *terminal.Session, api *client.Client, sub *sluice.Subscription) {
	if sub.Filter.CEL == "" && len(sub.Filter.Types) == 0 {
		return
	}
	is, err := api.MatchSubscription(ctx, sub.ID, client.MatchRequest{})
	if err != nil {
		s.Complain("warning: the names in the filter were not checked: %s", err)
	}
	warn(s, is.Warnings)
}

func warn(s *terminal.Session, warnings []string) {
	for _, one := range warnings {
		s.Complain("warning: %s", one)
	}
}
