package subscriptioncmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
)

// EventCmd explains the deliveries of an event to all subscriptions. An ID that is a number is
// taken as a sequence first.
type EventCmd struct {
	ID  string `arg:"" help:"ID or sequence of the event."`
	NS  string `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS"`
	All bool   `help:"Show subscriptions that do not want the event, too."`
}

// Help explains the sections.
func (*EventCmd) Help() string {
	return "The event's causes, nearest first; the events that it caused, among the next 1,000; and for each push subscription that you manage the state of its delivery, the reason, and its attempts: of the original delivery, of replays and of redrives."
}

// Run shows the event. It reads all pages. Causes and consequences are on the first page only. Code
// NotFound if the event is unknown, or hidden from the caller.
func (c *EventCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	story, err := api.EventDeliveries(ctx, c.NS, c.ID, client.EventDeliveriesQuery{})
	for page := story; err == nil && page.Next != ""; {
		page, err = api.EventDeliveries(ctx, c.NS, c.ID, client.EventDeliveriesQuery{Cursor: page.Next})
		story.Deliveries = append(story.Deliveries, page.Deliveries...)
		story.Next = page.Next
	}
	if err != nil {
		return err
	}
	return s.Show(story, func() error { return c.table(s, &story) })
}

// table hides subscriptions that do not want the event, and says how many; --all shows them.
func (c *EventCmd) table(s *terminal.Session, story *client.EventDeliveries) error {
	ev := &story.Event
	err := s.Facts("event", ev.ID, "seq", strconv.FormatUint(ev.Seq, 10), "path", string(ev.Path), "type", ev.Type, "time", terminal.FormatTime(ev.Time),
		"caused by", strings.Join(links(story.Causes), " < "), "caused", caused(story))
	if err != nil {
		return err
	}
	others := 0
	for i := range story.Deliveries {
		d := &story.Deliveries[i]
		if !c.All && d.State == "not_wanted" {
			others++
			continue
		}
		if err := eventDeliveryTable(s, d); err != nil {
			return err
		}
	}
	switch {
	case len(story.Deliveries) == 0:
		return s.Say("\nThere is no push subscription.")
	case others > 0:
		return s.Say("\n%s not want it; --all shows why.", counted(others, "subscription does", "subscriptions do"))
	}
	return nil
}

// counted returns "One subscription does" or "3 subscriptions do"; n is at least 1.
func counted(n int, one, more string) string {
	if n == 1 {
		return "One " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// links returns a description of each event: "ID (TYPE, PATH)".
func links(events []client.StoryEvent) []string {
	names := make([]string, len(events))
	for i, ev := range events {
		names[i] = fmt.Sprintf("%s (%s, %s)", ev.ID, ev.Type, ev.Path)
	}
	return names
}

// caused lists the consequences. The text ends with a note if the server searched only a part of
// the later events.
func caused(story *client.EventDeliveries) string {
	names := links(story.Consequences)
	if !story.Complete {
		names = append(names, "… (not all later events were searched)")
	}
	return strings.Join(names, ", ")
}

// eventDeliveryTable shows the delivery to one subscription.
func eventDeliveryTable(s *terminal.Session, d *client.EventDelivery) error {
	if err := s.Say("\n%s: %s\n  %s", d.Subscription, deliveryState(d.Delivery), d.Explanation); err != nil {
		return err
	}
	for _, run := range d.Runs {
		name := run.Kind
		if run.Replay != "" {
			name += " " + run.Replay
		}
		if err := s.Say("  %s:", name); err != nil {
			return err
		}
		if err := attemptTable(s, run.Attempts); err != nil {
			return err
		}
	}
	return nil
}
