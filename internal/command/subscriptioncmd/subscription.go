package subscriptioncmd

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/doctor"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd manages subscriptions.
type Cmd struct {
	Create subCreateCmd `cmd:"" help:"Create a subscription and print its secret once."`
	LS     subLsCmd     `cmd:"" name:"ls" help:"List subscriptions, newest first."`
	Show   subShowCmd   `cmd:"" help:"Show a subscription."`
	Edit   subEditCmd   `cmd:"" help:"Update a subscription."`
	RM     subRmCmd     `cmd:"" name:"rm" help:"Delete subscriptions."`
	Pause  subPauseCmd  `cmd:"" help:"Pause deliveries of a subscription."`
	Resume subResumeCmd `cmd:"" help:"Resume a paused, disabled or suspended subscription."`
	Rotate subRotateCmd `cmd:"" help:"Rotate the secret of a subscription and print the new one once."`
	Test   subTestCmd   `cmd:"" help:"Send a signed test event to the endpoint and show the result."`
	Status subStatusCmd `cmd:"" help:"Show the status of a subscription."`
	Stats  subStatsCmd  `cmd:"" help:"Show the attempts of a subscription over the last day, in steps."`

	Import subImportCmd `cmd:"" help:"Create the subscriptions in a file of YAML or NDJSON."`
	Export subExportCmd `cmd:"" help:"Write subscriptions as a file for import, without secrets."`

	Probe   subProbeCmd   `cmd:"" help:"Probe a failing endpoint now, instead of at the next probe."`
	Retry   subRetryCmd   `cmd:"" help:"Retry all parked and held lanes of a subscription now."`
	Seek    subSeekCmd    `cmd:"" help:"Move a subscription to another position in the log."`
	Replay  subReplayCmd  `cmd:"" help:"Replay past events."`
	Replays subReplaysCmd `cmd:"" help:"List the replays of a subscription, or show or cancel one."`
}

type subLsCmd struct {
	terminal.Watching

	NS    string `name:"ns" help:"Filter by namespace." placeholder:"NAME"`
	Mode  string `help:"Filter by mode: push or wake." enum:",push,wake" default:"" placeholder:"MODE"`
	State string `help:"Filter by state: active, paused, disabled, suspended or cancelled." enum:",active,paused,disabled,suspended,cancelled" default:"" placeholder:"STATE"`
	Limit int    `aliases:"last" help:"Maximum number of results; 0: all. --last is another name." default:"0"`
}

// Help explains the health column.
func (*subLsCmd) Help() string {
	return fmt.Sprintf("HEALTH is ok, or the condition with its causes, as in sluice status: failing, held, retrying, behind, dead_letters, paused and others. It is shown for the %d worst; - means unknown.", doctor.HealthMost)
}

// Run lists subscriptions.
func (c *subLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	return c.Repeat(ctx, s, func() error { return c.show(ctx, s) })
}

// show reads up to --limit subscriptions, newest first, and their health with one more request. An
// unknown health does not fail the command.
func (c *subLsCmd) show(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(c.Limit, func(cursor string, most int) (client.Page[sluice.Subscription], error) {
		q := client.SubscriptionsQuery{Namespace: c.NS, Mode: sluice.Mode(c.Mode), State: sluice.State(c.State), Limit: most, Cursor: cursor}
		return api.Subscriptions(ctx, q)
	})
	if err != nil {
		return err
	}
	shown := doctor.Views(ctx, api, c.NS, all)
	return s.Show(shown, func() error {
		rows := make([][]string, len(shown))
		for i, sub := range shown {
			rows[i] = []string{sub.ID, sub.Namespace, string(sub.Mode), string(sub.State), sub.Health, string(sub.Pattern), sub.Endpoint.URL, terminal.FormatTime(sub.CreatedAt)}
		}
		return s.Table("ID | NAMESPACE | MODE | STATE | HEALTH | PATTERN | URL | CREATED", rows)
	})
}

type subShowCmd struct {
	ID string `arg:"" help:"Subscription."`
}

// Run shows the subscription. SubscriptionMissing also means that the caller may not see it
// (S0-86). The secret is never shown, only its last characters.
func (c *subShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	sub, err := api.Subscription(ctx, c.ID)
	if err != nil {
		return err
	}
	return showSubscription(s, sub)
}

type subRmCmd struct {
	terminal.Confirmation

	IDs []string `arg:"" name:"id" help:"Subscriptions."`
}

// Run deletes the subscriptions. It asks one question for all IDs, and then deletes them in the
// order of the arguments until one deletion fails. Those before it stay deleted.
func (c *subRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, func() (string, error) { return c.question(ctx, api) }); err != nil {
		return err
	}
	for _, id := range c.IDs {
		if err := api.DeleteSubscription(ctx, id); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if err := cmdkit.Done(s, "Deleted subscription %s.", id); err != nil {
			return err
		}
	}
	return nil
}

// question returns a question that says what is lost with each subscription. It makes one request
// for each ID, and fails if one is missing, before anything is deleted.
func (c *subRmCmd) question(ctx context.Context, api *client.Client) (string, error) {
	all := make([]string, len(c.IDs))
	for i, id := range c.IDs {
		st, err := api.Status(ctx, id)
		with, err := terminal.Counted(err, " (%d events wait, %s)", st.Backlog, terminal.DeadLetterCount(st.DeadLetters))
		if err != nil {
			return "", fmt.Errorf("%s: %w", id, err)
		}
		all[i] = id + with
	}
	return fmt.Sprintf("Delete %s permanently, with their positions in the log and their dead letters?", strings.Join(all, ", ")), nil
}

type subPauseCmd struct {
	IDs []string `arg:"" name:"id" help:"Subscriptions."`
}

// Run pauses the subscriptions. A paused subscription keeps its position, and its events wait in
// the log. Pausing a paused one succeeds.
func (c *subPauseCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return changeEach(ctx, s, c.IDs, "Paused", api.PauseSubscription)
}

type subResumeCmd struct {
	IDs []string `arg:"" name:"id" help:"Subscriptions."`
}

// Run resumes the subscriptions. A cancelled subscription cannot be resumed (code Conflict).
func (c *subResumeCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	return changeEach(ctx, s, c.IDs, "Resumed", api.ResumeSubscription)
}

// changeEach changes the subscriptions one after another, until a change fails, and prints each. In
// JSON, several subscriptions are a list. The error of the failed change is returned after the
// changed ones are printed; if none was changed, nothing is printed.
func changeEach(ctx context.Context, s *terminal.Session, ids []string, verb string, change func(context.Context, string) (sluice.Subscription, error)) error {
	var changed []sluice.Subscription
	var failed error
	for _, id := range ids {
		sub, err := change(ctx, id)
		if err != nil {
			failed = err
			break
		}
		changed = append(changed, sub)
	}
	var value any = changed
	if len(ids) == 1 && failed == nil {
		value = changed[0]
	}
	if len(changed) == 0 {
		return failed
	}
	err := s.Show(value, func() error {
		for _, sub := range changed {
			if err := s.Say("%s subscription %s.", verb, sub.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return cmp.Or(err, failed)
}

type subRotateCmd struct {
	terminal.Confirmation

	ID      string        `arg:"" help:"Subscription."`
	Overlap time.Duration `help:"Time during which the old secret also signs (scheme standard); with the schemes t-sha256 and header it ends immediately; 0s: all earlier secrets end immediately." default:"24h"`
}

// Run creates the new secret. A retry of a rotation rotates again, so a lost response means a lost
// secret. A rotation that ends the old secret at once asks, or requires --yes.
func (c *subRotateCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.Overlap < 0 {
		return terminal.Usagef("--overlap %s: write a duration, such as 24h", c.Overlap)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.ask(ctx, s, api); err != nil {
		return err
	}
	sub, err := api.RotateSecret(ctx, c.ID, c.Overlap)
	if err != nil {
		return err
	}
	return s.Show(sub, func() error {
		old := ""
		switch scheme := sub.Policy.Signature.Scheme; {
		case signsOnce(scheme):
			old = fmt.Sprintf("; the old one does not sign any more, because the scheme %s has one signature", scheme)
		case scheme == sluice.SchemeStandard && c.Overlap > 0:
			old = fmt.Sprintf("; the old one also signs for %s", c.Overlap)
		}
		return s.Say("The new secret of %s is not shown again%s:\n\n  %s\n", c.ID, old, sub.Endpoint.Secret)
	})
}

// ask asks the user before the old secret ends at once: without an overlap, and with a scheme that
// has room for one signature. With an overlap, receivers with the old secret accept the signatures
// of the other schemes.
func (c *subRotateCmd) ask(ctx context.Context, s *terminal.Session, api *client.Client) error {
	if c.Overlap > 0 && !c.Yes {
		sub, err := api.Subscription(ctx, c.ID)
		if err != nil || !signsOnce(sub.Policy.Signature.Scheme) {
			return err
		}
	}
	return c.Confirm(s, terminal.Question("End the old secret at once? A receiver that does not have the new one rejects requests, and the old one cannot be restored."))
}

// signsOnce reports whether a scheme signs with the newest secret only, during a rotation too.
func signsOnce(scheme sluice.Scheme) bool {
	return scheme == sluice.SchemeT || scheme == sluice.SchemeHeader
}

type subStatusCmd struct {
	terminal.Watching

	ID string `arg:"" help:"Subscription."`
}

// Run shows the status.
func (c *subStatusCmd) Run(ctx context.Context, s *terminal.Session) error {
	return c.Repeat(ctx, s, func() error { return c.show(ctx, s) })
}

func (c *subStatusCmd) show(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	st, err := api.Status(ctx, c.ID)
	if err != nil {
		return err
	}
	return s.Show(st, func() error { return statusTable(s, st) })
}

// statusTable prints a wake subscription as the numbers of its consumers, and a push subscription
// with a second table of its parked lanes: the 100 that are due first, held ones last.
func statusTable(s *terminal.Session, st sluice.Status) error {
	if st.Consumers != nil {
		return wakeTable(s, st)
	}
	err := s.Facts(
		"state", cmdkit.Because(string(st.State), st.Reason), "undelivered", strconv.FormatUint(st.Undelivered, 10), "backlog", strconv.FormatUint(st.Backlog, 10),
		"lag", seconds(st.LagSeconds), "in flight", strconv.Itoa(st.InFlight), "parked lanes", strconv.Itoa(st.Parked), "held lanes", strconv.Itoa(st.Held),
		"next attempt", terminal.FormatTimePtr(st.NextAttemptAt), "dead letters", strconv.FormatUint(st.DeadLetters, 10),
		"breaker", string(st.Breaker), "ack floor", strconv.FormatUint(st.AckFloor, 10),
	)
	if err == nil && st.SourceError != "" {
		err = s.Say("\nNothing is delivered: the events cannot be read from the log: %s", st.SourceError)
	}
	if err != nil || len(st.ParkedLanes) == 0 {
		return err
	}
	rows := make([][]string, len(st.ParkedLanes))
	for i, p := range st.ParkedLanes {
		next := terminal.FormatTime(p.NextAt)
		if p.Held != "" {
			next = cmdkit.Because("held", string(p.Held))
		}
		rows[i] = []string{terminal.OrDash(string(p.Path)), strconv.FormatUint(p.FromSeq, 10), strconv.Itoa(p.Attempts), next, terminal.OrDash(p.LastError)}
	}
	if err := s.Say(""); err != nil {
		return err
	}
	return s.Table("PARKED PATH | FROM SEQ | ATTEMPTS | NEXT | LAST ERROR", rows)
}

// wakeTable prints the status of a subscription of mode wake.
func wakeTable(s *terminal.Session, st sluice.Status) error {
	count := func(state sluice.WakeState) string { return strconv.Itoa(st.Consumers[state]) }
	return s.Facts("state", cmdkit.Because(string(st.State), st.Reason),
		"idle", count(sluice.WakeIdle), "waking", count(sluice.WakeWaking), "live", count(sluice.WakeLive))
}

// showSubscription prints the settings as the server applies them, with all defaults filled in. The
// table omits settings that are empty.
func showSubscription(s *terminal.Session, sub sluice.Subscription) error {
	return s.Show(sub, func() error {
		p := sub.Policy
		return s.Facts(
			"id", sub.ID, "namespace", sub.Namespace, "mode", string(sub.Mode), "state", cmdkit.Because(string(sub.State), sub.Reason),
			"description", sub.Description, "pattern", string(sub.Pattern), "filter", cmdkit.Compact(sub.Filter),
			"url", sub.Endpoint.URL, "headers", cmdkit.Compact(sub.Endpoint.Headers),
			"oauth", oauth(sub.Endpoint.Auth), "client certificate", clientCertificate(sub.Endpoint.TLS), "secret", hint(sub), "start", sub.Start,
			"retry", retry(p.Retry), "timeout", terminal.FormatDuration(p.Timeout), "window", strconv.Itoa(p.Window), "rate", rate(p.Rate),
			"ordering", string(p.Ordering), "batch", batch(p.Batch), "debounce", debounce(p.Debounce), "envelope", string(p.Envelope), "body", cmdkit.Compact(p.Body), "projection", p.Projection, "signature", strings.TrimSpace(string(p.Signature.Scheme)+" "+p.Signature.Name),
			"metadata", cmdkit.Compact(sub.Metadata), "revision", strconv.FormatUint(sub.Revision, 10),
			"created", terminal.FormatTime(sub.CreatedAt)+terminal.By(sub.CreatedBy), "grant", sub.Grant, "last event", terminal.FormatTimePtr(sub.LastEventAt),
		)
	})
}

// oauth describes the client credentials of an endpoint, without the client's secret; "" for nil.
func oauth(a *sluice.EndpointAuth) string {
	if a == nil {
		return ""
	}
	return a.ClientID + " at " + a.TokenURL
}

// clientCertificate returns the end of the certificate's validity. It returns "" if there is none,
// or if the server did not report it.
func clientCertificate(t *sluice.EndpointTLS) string {
	if t == nil || t.NotAfter == nil {
		return ""
	}
	return "until " + terminal.FormatTimePtr(t.NotAfter)
}

// debounce describes a debounce; "" if there is none.
func debounce(d sluice.Debounce) string {
	switch {
	case d.Quiet == 0:
		return ""
	case d.Max == 0:
		return terminal.FormatDuration(d.Quiet) + " without an event on the path"
	}
	return fmt.Sprintf("%s without an event on the path, %s at most", terminal.FormatDuration(d.Quiet), terminal.FormatDuration(d.Max))
}

// batch describes a batch; "" if there is none.
func batch(b sluice.Batch) string {
	switch {
	case b.Max == 0:
		return ""
	case b.Wait == 0:
		return fmt.Sprintf("up to %d events", b.Max)
	}
	return fmt.Sprintf("up to %d events, waiting %s for more", b.Max, terminal.FormatDuration(b.Wait))
}

// hint returns the end of the secret, which the server sends in place of the secret (C36).
func hint(sub sluice.Subscription) string {
	if sub.SecretHint == "" {
		return ""
	}
	return "…" + sub.SecretHint
}

// retry returns the name of a preset; or the waits of a custom timetable, followed by its number of
// attempts, the first included.
func retry(r sluice.Retry) string {
	if r.Preset != sluice.PresetCustom {
		return string(r.Preset)
	}
	steps := make([]string, len(r.Steps))
	for i, step := range r.Steps {
		steps[i] = terminal.FormatDuration(step)
	}
	return fmt.Sprintf("%s, %d attempts", strings.Join(steps, " "), r.MaxAttempts)
}

// rate returns the bounds that are set; 0 is no bound.
func rate(r sluice.Rate) string {
	var bounds []string
	if r.PerSecond > 0 {
		bounds = append(bounds, strconv.FormatFloat(r.PerSecond, 'g', -1, 64)+"/s")
	}
	if r.PerMinute > 0 {
		bounds = append(bounds, strconv.FormatFloat(r.PerMinute, 'g', -1, 64)+"/min")
	}
	if r.Key != "" {
		bounds = append(bounds, "shared as "+r.Key)
	}
	return cmp.Or(strings.Join(bounds, ", "), "unlimited")
}

// seconds formats a number of seconds, to the millisecond.
func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
