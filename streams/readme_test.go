package streams_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestReadme_ShowsExactlyTheLayout(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for section, want := range map[string][]string{
		"Streams":   streamRows(),
		"Buckets":   bucketRows(),
		"Consumers": consumerRows(),
		"Subjects":  subjectRows(),
		"Headers":   headerRows(),
	} {
		require.Equal(t, strings.Join(want, "\n"), strings.Join(rows(t, string(text), section), "\n"), section)
	}
}

// rows returns the body of the first table of a section.
func rows(t *testing.T, text, section string) []string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\n## "+section+"\n")
	require.True(t, ok, "the README has no section %s", section)
	text, _, _ = strings.Cut(text, "\n## ")
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	require.Greater(t, len(found), 2, "the section %s has no table", section)
	return found[2:]
}

func row(cells ...any) string {
	return strings.TrimSuffix(fmt.Sprintln(append(append([]any{"|"}, between(cells)...), "|")...), "\n")
}

func between(cells []any) []any {
	var out []any
	for i, c := range cells {
		if i > 0 {
			out = append(out, "|")
		}
		out = append(out, c)
	}
	return out
}

func code(s string) string { return "`" + s + "`" }

func span(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}

func options(s streams.Stream) string {
	var names []string
	for _, o := range []struct {
		name string
		set  bool
	}{{"direct", s.AllowDirect}, {"atomic", s.AllowAtomic}, {"ttl", s.AllowTTL}, {"no-delete", s.DenyDelete}, {"no-purge", s.DenyPurge}, {"refuse-when-full", s.RefuseFull}, {"one a subject", s.PerSubject == 1}} {
		if o.set {
			names = append(names, o.name)
		}
	}
	return strings.Join(names, ", ")
}

func streamRows() []string {
	var out []string
	for _, s := range append([]streams.Stream{streams.Names{}.Events(sluice.Namespace{Name: "<ns>"})}, streams.Names{}.Singles()...) {
		out = append(out, row(code(s.Name), code(strings.Join(s.Subjects, " ")), span(s.MaxAge), span(s.Dedup), s.MaxConsumers, options(s), s.Description))
	}
	return out
}

func bucketRows() []string {
	var out []string
	for _, b := range streams.Buckets() {
		out = append(out, row(code(b.Name), b.History, span(b.TTL), span(b.MarkerTTL), b.MaxConsumers, b.Description))
	}
	return out
}

func consumerRows() []string {
	sub := sluice.Subscription{ID: "<id>", Namespace: "<ns>", Pattern: "/a/**"}
	sub.SetDefaults()
	var out []string
	for _, c := range append(streams.Names{}.PushConsumers(&sub), streams.Names{}.LettersConsumer()) {
		out = append(out, row(code(c.Name), code(c.Stream), code(c.Filter.Subject), span(c.AckWait), c.MaxPending, c.MaxDeliver))
	}
	return out
}

func subjectRows() []string {
	return []string{
		row(code(streams.Names{}.Subject("<ns>", "/some/path")), "an event of the path `/some/path`"),
		row(code(streams.Names{}.RecordSubject("<ns>", "/some/path")), "the record of the path as a stream: content type, closure, producers, forks (decision 0016)"),
		row(code(streams.Names{}.ErasedSubject("<ns>")), "an erased event: its id and the sequence that it had, with the server's proof (decision 0046)"),
		row(code(streams.Names{}.TrustedSubjects("<ns>")), "messages of trusted publishers; stored under `events.<ns>.>` (decision 0011)"),
		row(code(streams.Names{}.LiveSubjects("<ns>")), "stored events again, for readers of other accounts; only if there are any"),
		row(code(streams.Names{}.AttemptsSubject("<ns>", "<id>")), "attempts of the subscription"),
		row(code(streams.Names{}.DeadLetterSubject(&sluice.DeadLetter{Namespace: "<ns>", Subscription: "<id>", Seq: 17, EventID: "order-17"})), "the dead letter of the event `order-17`, which has the sequence 17"),
		row(code(streams.Names{}.DeadLetterSubject(&sluice.DeadLetter{Namespace: "<ns>", Subscription: "<id>", Seq: 17, Path: "/some/path"})), "a dead letter of an event that was never seen"),
		row(code(streams.Names{}.LedgerSubject("<ns>", "subscription.pause")), "a change, by namespace and action"),
		row(code(streams.Names{}.LedgerSubject("", "<action>")), "a change of a record that belongs to no namespace"),
		row(code(streams.Names{}.KnowledgeSubject("<ns>", streams.LocalKnowledge("order-17"))), "the embedding of the event `order-17`, with the state of its job (decision 0050)"),
		row(code(streams.Names{}.KnowledgeSubject("<ns>", streams.MirroredKnowledge("<id>", "order-17"))), "the same of an entry of the mirror"),
		row(code(streams.Names{}.KnowledgeSubject("<ns>", streams.Comparison("order-17", "<hash>"))), "a comparison of the event `order-17`, likewise"),
		row(code("$KV."+streams.Lanes+"."+streams.LaneKey("<id>", sluice.OrderByPath, "/some/path", 0)), "the parked lane of the path"),
		row(code("$KV."+streams.Lanes+"."+streams.LaneKey("<id>", sluice.OrderNone, "/some/path", 17)), "the parked lane of one event, by its sequence (ordering `none`)"),
		row(code("$KV."+streams.Lanes+"."+streams.LaneKey("<id>", sluice.OrderAll, "/some/path", 0)), "the parked lane of the whole subscription (ordering `all`)"),
		row(code("$KV."+streams.Lanes+"."+streams.LaneKey(streams.ReplayLanes("<replay>"), sluice.OrderByPath, "/some/path", 0)), "the same of a replay, in place of the subscription's id"),
		row(code("$KV."+streams.Replays+"."+streams.ReplayKey("<id>", "<replay>")), "a replay and its progress"),
		row(code("$KV."+streams.Access+"."+streams.GrantKey("<id>")), "a grant"),
		row(code("$KV."+streams.Access+"."+streams.ACLKey("<ns>", "")), "the head of a namespace's access list"),
		row(code("$KV."+streams.Access+"."+streams.ACLKey("<ns>", "user:ann")), "the rights of `user:ann` in a namespace"),
		row(code("$KV."+streams.Access+"."+streams.ProfileKey("user:ann")), "the clearance of `user:ann`"),
		row(code("$KV."+streams.Access+"."+streams.LabelKey("<ns>")), "a namespace's label"),
		row(code("$KV."+streams.Access+"."+streams.TombstoneKey("<ns>", "/some/path")), "up to which sequence the events of a path are erased"),
		row(code("$KV."+streams.Access+"."+streams.PresenceKey("<replica>")), "a running replica, and the revision up to which it applies changes of permissions"),
		row(code("$KV."+streams.PortalLinks+"."+streams.PortalLinkKey("<hash>", "<hash>")), "a link to the portal, until an hour after it was made"),
		row(code("$KV."+streams.EventTypes+"."+streams.EventTypeKey("<ns>", "order.placed")), "the entry of the type `order.placed` in the namespace's catalogue"),
		row(code("$KV."+streams.Scheduled+"."+streams.ScheduledKey("<ns>", "order-17")), "the event `order-17`, as long as it is not due"),
		row(code("$KV."+streams.Instructions+"."+instructionKey(sluice.KindAppointment)), "an appointment"),
		row(code("$KV."+streams.Instructions+"."+instructionKey(sluice.KindWatch)), "a watch"),
		row(code("$KV."+streams.Watches+"."+strings.Replace(streams.WatchKey("<ns>", "id"), ".id", ".<id>", 1)), "the position and the memory of the watch"),
		row(code("$KV."+streams.Told+"."+streams.ToldNamespaceKey("<ns>")), "the last change of the namespace with a published system event"),
		row(code("$KV."+streams.Lanes+"."+streams.LookoutKey("<id>")), "the sequence up to which the subscription's events are accounted for (decision 0003)"),
		row(code("$KV."+streams.Lanes+"."+streams.CursorKey("<ns>", 7)), "the same for all subscriptions of a shard that are attached to the cursor (decision 0043)"),
		row(code("$KV."+streams.Lanes+"."+streams.HealthKey("<id>")), "the breaker, and since when every attempt has failed, while the endpoint is in trouble (decision 0008)"),
	}
}

func headerRows() []string {
	var out []string
	for _, h := range streams.Headers() {
		out = append(out, row(code(h.Name), h.Description))
	}
	return out
}

// instructionKey shows placeholders, which a real id cannot have, as they are.
func instructionKey(kind sluice.InstructionKind) string {
	return strings.Replace(streams.InstructionKey(kind, "<ns>", "id"), ".id", ".<id>", 1)
}
