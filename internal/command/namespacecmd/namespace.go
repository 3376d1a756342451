package namespacecmd

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd manages namespaces.
type Cmd struct {
	LS      nsLsCmd      `cmd:"" name:"ls" help:"List namespaces."`
	Put     nsPutCmd     `cmd:"" help:"Create a namespace, or replace its settings."`
	Edit    nsEditCmd    `cmd:"" help:"Change settings or the label of a namespace."`
	Show    nsShowCmd    `cmd:"" help:"Show a namespace and its usage."`
	Export  nsExportCmd  `cmd:"" help:"Export all events of a namespace to a file or stdout, one per line."`
	Observe nsObserveCmd `cmd:"" help:"Show a page of the changes of a namespace, with deletions."`
	RM      nsRmCmd      `cmd:"" name:"rm" help:"Delete a namespace with everything in it."`
}

type nsLsCmd struct{}

// Run lists the namespaces. They are those that the caller may know of, newest first.
func (nsLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	all, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.Namespace], error) {
		return c.Namespaces(ctx, cursor)
	})
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all))
		for i, ns := range all {
			rows[i] = []string{ns.Name, age(ns.Retention.MaxAge), size(ns.Retention.MaxBytes), labelOf(ns), terminal.FormatTime(ns.CreatedAt), ns.Description}
		}
		return s.Table("NAME | MAX AGE | MAX BYTES | LABEL | CREATED | DESCRIPTION", rows)
	})
}

// nsPutCmd creates or changes a namespace. The zero value of a flag is the server's default, except
// for MaxAge and MaxBytes, which are then unchanged.
type nsPutCmd struct {
	terminal.Confirmation

	Name        string          `arg:"" help:"Namespace."`
	Description string          `help:"Description." placeholder:"TEXT"`
	MaxAge      sluice.Duration `name:"max-age" help:"Retention of events; -1s: unlimited; default: unchanged, or the server's default." placeholder:"168h"`
	MaxBytes    int64           `name:"max-bytes" help:"Maximum size of the log, in bytes; -1: unlimited; default: unchanged, or the server's default." placeholder:"N"`
	DedupWindow sluice.Duration `name:"dedup-window" help:"Time for which event IDs are remembered; default: the server's." placeholder:"1h"`

	EventsPerSecond float64 `name:"events-per-second" help:"Maximum events per second through the API; -1: unlimited; default: the server's." placeholder:"N"`
	Burst           int     `help:"Maximum burst of events through the API; default: the number per second." placeholder:"N"`
	Catalogue       string  `help:"open, or strict: accept only types of the catalogue, with data that matches the schema; default: open." enum:"open,strict," default:"" placeholder:"open"`
	BytesPerSecond  int64   `name:"bytes-per-second" help:"Maximum bytes of request bodies per second; -1: unlimited; default: the server's." placeholder:"N"`
}

// Help explains the effect on settings without a flag.
func (*nsPutCmd) Help() string {
	return "All settings are replaced: settings without a flag return to their defaults, except for the retention and the label, which stay."
}

// Run creates or changes the namespace. Retention without a flag is read from the server, because
// the request replaces all settings. Less retention than before asks first, or requires --yes.
// Code RevisionMismatch after a concurrent change of an existing namespace: nothing is changed
// then, and the command can be repeated.
func (c *nsPutCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	spec := client.NamespaceSpec{
		Description: c.Description,
		Retention:   sluice.Retention{MaxAge: c.MaxAge, MaxBytes: c.MaxBytes},
		DedupWindow: c.DedupWindow,
		Quota:       sluice.Quota{EventsPerSecond: c.EventsPerSecond, Burst: c.Burst, BytesPerSecond: c.BytesPerSecond},
		Catalogue:   sluice.Catalogue(c.Catalogue),
	}
	old, err := api.Namespace(ctx, c.Name)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	if err == nil {
		own := old.Own().Retention
		spec.Retention.MaxAge = cmp.Or(c.MaxAge, own.MaxAge)
		spec.Retention.MaxBytes = cmp.Or(c.MaxBytes, own.MaxBytes)
		spec.Revision = old.Revision
		if err := confirmShrink(c.Confirmation, s, old, spec); err != nil {
			return err
		}
	}
	ns, err := api.PutNamespace(ctx, c.Name, spec)
	if err != nil {
		return err
	}
	return showNamespace(s, ns)
}

// nsEditCmd changes a namespace. A nil field is unchanged.
type nsEditCmd struct {
	terminal.Confirmation

	Name        string           `arg:"" help:"Namespace."`
	Label       *string          `help:"Sensitivity: a level (PUBLIC, INTERNAL, CONFIDENTIAL, SECRET, TOP_SECRET), optionally with compartments, such as SECRET/finance,legal." placeholder:"LABEL"`
	Description *string          `help:"Description." placeholder:"TEXT"`
	MaxAge      *sluice.Duration `name:"max-age" help:"Retention of events; -1s: unlimited; 0s: the server's default." placeholder:"168h"`
	MaxBytes    *int64           `name:"max-bytes" help:"Maximum size of the log, in bytes; -1: unlimited; 0: the server's default." placeholder:"N"`
	DedupWindow *sluice.Duration `name:"dedup-window" help:"Time for which event IDs are remembered; 0s: the server's default." placeholder:"1h"`
	Catalogue   string           `help:"open, or strict: accept only types of the catalogue." enum:"open,strict," default:"" placeholder:"open"`

	EventsPerSecond *float64 `name:"events-per-second" help:"Maximum events per second through the API; -1: unlimited; 0: the server's default." placeholder:"N"`
	Burst           *int     `help:"Maximum burst of events through the API; 0: the number per second." placeholder:"N"`
	BytesPerSecond  *int64   `name:"bytes-per-second" help:"Maximum bytes of request bodies per second; -1: unlimited; 0: the server's default." placeholder:"N"`
}

// Help explains the effects of a retention and a label.
func (*nsEditCmd) Help() string {
	return "A dedup window that is longer than the new --max-age is shortened to it.\n" +
		"Principals without clearance for the new label lose access to the namespace immediately, and their subscriptions there are cancelled.\n" +
		"This includes you, unless you are root or have the clearance (sluice principal set)."
}

// Run changes the settings that the flags name, unless there is a concurrent change. Code
// RevisionMismatch after a concurrent change: nothing is changed then, and the command can be
// repeated. A shorter retention and a label that hides the namespace from callers are confirmed
// separately.
func (c *nsEditCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.changesNothing() {
		return terminal.Usagef("nothing to change: set --label, --description, --max-age, --max-bytes, --dedup-window, --events-per-second, --burst, --bytes-per-second or --catalogue")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	ns, err := api.Namespace(ctx, c.Name)
	if err != nil {
		return err
	}
	spec, err := c.spec(ns)
	if err != nil {
		return err
	}
	if err := confirmShrink(c.Confirmation, s, ns, spec); err != nil {
		return err
	}
	if err := confirmHide(c.Confirmation, s, ns, spec.Label); err != nil {
		return err
	}
	if ns, err = api.PutNamespace(ctx, c.Name, spec); err != nil {
		return err
	}
	return showNamespace(s, ns)
}

// changesNothing reports whether no flag names a setting.
func (c *nsEditCmd) changesNothing() bool {
	return c.Label == nil && c.Description == nil && c.MaxAge == nil && c.MaxBytes == nil && c.DedupWindow == nil && c.Catalogue == "" &&
		c.EventsPerSecond == nil && c.Burst == nil && c.BytesPerSecond == nil
}

// confirmShrink asks the user before tighter limits remove events from a log. An empty namespace,
// and one without a visible usage, is changed without a question. A limit that stays inherited is
// unchanged.
func confirmShrink(a terminal.Confirmation, s *terminal.Session, old sluice.Namespace, spec client.NamespaceSpec) error {
	own, was, is := old.Own().Retention, old.Retention, spec.Retention
	shorter := is.MaxAge != own.MaxAge && narrower(int64(was.MaxAge), int64(is.MaxAge)) ||
		is.MaxBytes != own.MaxBytes && narrower(was.MaxBytes, is.MaxBytes)
	if eventsOf(old) == 0 || !shorter {
		return nil
	}
	return a.Confirm(s, terminal.Question("Reduce the retention of %s? Of its %d events, those beyond the new limits are deleted permanently.", old.Name, eventsOf(old)))
}

// narrower reports whether a limit may be below the previous one. A negative value is no limit; 0
// is the server's default, which is unknown here.
func narrower(before, after int64) bool {
	return after == 0 && before != 0 || after > 0 && (before <= 0 || after < before)
}

// confirmHide asks the user before a label excludes principals that had clearance for the previous
// one.
func confirmHide(a terminal.Confirmation, s *terminal.Session, old sluice.Namespace, next *sluice.Label) error {
	before := sluice.Label{}
	if old.Label != nil {
		before = *old.Label
	}
	if next == nil || before.Dominates(*next) {
		return nil
	}
	return a.Confirm(s, terminal.Question("Change the label of %s to %s? Principals without clearance lose access immediately, and their subscriptions there are cancelled permanently.", old.Name, cmdkit.FormatLabel(*next)))
}

// spec returns the namespace's own settings, overridden by the flags: the inherited ones stay
// inherited. The dedup window that it has is at most a new maximum age, because the server refuses a
// longer one. The revision is that of ns, which fences the request against changes since it was
// read.
func (c *nsEditCmd) spec(ns sluice.Namespace) (client.NamespaceSpec, error) {
	ns = ns.Own()
	spec := client.NamespaceSpec{
		Description: ns.Description, Retention: ns.Retention, DedupWindow: ns.DedupWindow, Quota: ns.Quota, Catalogue: ns.Catalogue, Revision: ns.Revision,
	}
	if c.Label != nil {
		l, err := sluice.ParseClassification(*c.Label)
		if err != nil {
			return spec, terminal.Usagef("--label: %w", err)
		}
		spec.Label = &l
	}
	if c.MaxAge != nil && *c.MaxAge > 0 {
		spec.DedupWindow = min(spec.DedupWindow, *c.MaxAge)
	}
	override(&spec.Description, c.Description)
	override(&spec.Retention.MaxAge, c.MaxAge)
	override(&spec.Retention.MaxBytes, c.MaxBytes)
	override(&spec.DedupWindow, c.DedupWindow)
	override(&spec.Quota.EventsPerSecond, c.EventsPerSecond)
	override(&spec.Quota.Burst, c.Burst)
	override(&spec.Quota.BytesPerSecond, c.BytesPerSecond)
	if c.Catalogue != "" {
		spec.Catalogue = sluice.Catalogue(c.Catalogue)
	}
	return spec, nil
}

// override replaces a setting if its flag is given.
func override[T any](setting, flag *T) {
	if flag != nil {
		*setting = *flag
	}
}

type nsShowCmd struct {
	Name string `arg:"" help:"Namespace."`
}

// Run shows the namespace. The usage is missing unless the caller may read the whole namespace.
func (c *nsShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	ns, err := api.Namespace(ctx, c.Name)
	if err != nil {
		return err
	}
	return showNamespace(s, ns)
}

type nsRmCmd struct {
	terminal.Confirmation

	Name string `arg:"" help:"Namespace."`
}

// Run deletes the namespace. It cannot be undone, and asks first or requires --yes. The default
// namespace cannot be deleted (code Conflict).
func (c *nsRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, func() (string, error) { return c.question(ctx, api) }); err != nil {
		return err
	}
	if err := api.DeleteNamespace(ctx, c.Name); err != nil {
		return err
	}
	return cmdkit.Done(s, "Deleted namespace %s.", c.Name)
}

// question returns a question that lists the losses. It counts up to 1,000 subscriptions. A caller
// that may not list them is asked without their number.
func (c *nsRmCmd) question(ctx context.Context, api *client.Client) (string, error) {
	ns, err := api.Namespace(ctx, c.Name)
	if err != nil {
		return "", err
	}
	const most = 1000
	subs, err := api.Subscriptions(ctx, client.SubscriptionsQuery{Namespace: c.Name, Limit: most})
	many, more := strconv.Itoa(len(subs.Items)), ""
	if subs.Next != "" {
		more = "more than "
	}
	with, err := terminal.Counted(err, " and its %s%s subscriptions", more, many)
	return fmt.Sprintf("Delete the namespace %s with its %d events%s permanently?", c.Name, eventsOf(ns), with), err
}

// eventsOf returns the number of stored events; 0 if the caller may not see the usage.
func eventsOf(ns sluice.Namespace) uint64 {
	if ns.Usage == nil {
		return 0
	}
	return ns.Usage.Events
}

// showNamespace prints the settings and, if the caller may see it, the usage in events and bytes.
func showNamespace(s *terminal.Session, ns sluice.Namespace) error {
	return s.Show(ns, func() error {
		pairs := []string{
			"name", ns.Name, "description", ns.Description, "created", terminal.FormatTime(ns.CreatedAt),
			"max age", age(ns.Retention.MaxAge), "max bytes", size(ns.Retention.MaxBytes), "dedup window", terminal.FormatDuration(ns.DedupWindow),
			"quota", quota(ns.Quota), "label", labelOf(ns), "catalogue", string(ns.Catalogue),
		}
		if u := ns.Usage; u != nil {
			pairs = append(pairs, "events", strconv.FormatUint(u.Events, 10), "bytes", strconv.FormatUint(u.Bytes, 10),
				"first seq", strconv.FormatUint(u.FirstSeq, 10), "last seq", strconv.FormatUint(u.LastSeq, 10))
		}
		return s.Facts(pairs...)
	})
}

func labelOf(ns sluice.Namespace) string {
	if ns.Label == nil {
		return "-"
	}
	return cmdkit.FormatLabel(*ns.Label)
}

// age formats a retention: below 0 is unlimited, 0 is the server's default.
func age(d sluice.Duration) string {
	switch {
	case d < 0:
		return "unlimited"
	case d == 0:
		return "default"
	default:
		return terminal.FormatDuration(d)
	}
}

// size formats a number of bytes, of which 0 or less is unlimited.
func size(n int64) string {
	if n <= 0 {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}

// quota formats a namespace's publish quota in a line. A burst is shown with a rate only.
func quota(q sluice.Quota) string {
	var parts []string
	if q.EventsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%v events/s, %d at once", q.EventsPerSecond, q.Burst))
	}
	if q.BytesPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes/s", q.BytesPerSecond))
	}
	if len(parts) == 0 {
		return "unlimited"
	}
	return strings.Join(parts, "; ")
}
