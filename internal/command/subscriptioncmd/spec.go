package subscriptioncmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// specFlags are the settings of a subscription that can be changed later. A nil pointer, and an
// empty text or list, is an absent flag; the field is then left out.
type specFlags struct {
	File        string            `help:"File with the JSON or YAML of the API; - reads stdin. Flags override it." placeholder:"FILE"`
	URL         *string           `name:"url" help:"URL of the endpoint." placeholder:"URL"`
	Header      map[string]string `help:"Additional header; repeatable." placeholder:"K=V" mapsep:"none"`
	Types       []string          `name:"type" aliases:"types" help:"Filter by type; a final .* matches any suffix." placeholder:"TYPE"`
	CEL         *string           `name:"cel" help:"Filter by a CEL expression." placeholder:"EXPR"`
	Envelope    *string           `help:"Envelope: cloudevents, cloudevents-binary, fact, attempt or raw." placeholder:"NAME"`
	Body        *string           `name:"body-cel" help:"Template of the body, in place of an envelope: a CEL expression over event, whose value is sent as JSON." placeholder:"EXPR"`
	Preset      *string           `name:"body-preset" help:"Form of the body: slack or discord; --body-cel yields its text." placeholder:"NAME"`
	Projection  *string           `help:"Amount of data that is sent: full, summary or none." placeholder:"NAME"`
	Scheme      *string           `help:"Signature scheme: standard, ed25519, t-sha256, header or rfc9421." placeholder:"NAME"`
	Ordering    *string           `help:"Ordering: path, all or none." placeholder:"NAME"`
	Retry       string            `help:"Retry preset (standard, short, persistent, stepped), or waits such as 1s,5s,1m." placeholder:"NAME"`
	Window      *int              `help:"Maximum attempts in flight." placeholder:"N"`
	Timeout     *time.Duration    `help:"Timeout for one attempt." placeholder:"15s"`
	Batch       *int              `help:"Send up to N events in one request, as a CloudEvents batch." placeholder:"N"`
	BatchWait   *time.Duration    `name:"batch-wait" help:"How long an event waits for others of its batch at most." placeholder:"0s"`
	Debounce    *time.Duration    `help:"Send the latest event of a path once no event came on it for this time." placeholder:"10s"`
	DebounceMax *time.Duration    `name:"debounce-max" help:"Send it after this time at the latest." placeholder:"1m"`
	Rate        *float64          `help:"Maximum attempts per second; 0: unlimited." placeholder:"N"`
	PerMinute   *float64          `name:"rate-per-minute" help:"Maximum attempts per minute; 0: unlimited. Applies in addition to --rate." placeholder:"N"`
	RateKey     *string           `name:"rate-key" help:"Key under which subscriptions share one rate." placeholder:"KEY"`
	Description *string           `help:"Description." placeholder:"TEXT"`

	endpointFlags
}

// spec is the JSON of a subscription, with the fields that the user gave. Fields are absent rather
// than empty, so that the server's defaults apply, and a change leaves the others alone (RFC 7396).
// A null removes a field.
type spec map[string]any

// set sets a value, and creates the objects above it as needed. A value above it that is no object
// is replaced.
func (m spec) set(value any, names ...string) {
	at := m
	for _, name := range names[:len(names)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	at[names[len(names)-1]] = value
}

// take removes a value, and the objects above it that become empty, and returns the value. It
// returns false if there is none.
func (m spec) take(names ...string) (any, bool) {
	value, ok := m[names[0]]
	if !ok || len(names) == 1 {
		delete(m, names[0])
		return value, ok
	}
	inner, is := value.(map[string]any)
	if !is {
		return nil, false
	}
	value, ok = spec(inner).take(names[1:]...)
	if len(inner) == 0 {
		delete(m, names[0])
	}
	return value, ok
}

// spec returns the file's content, overridden by the flags. It returns a usage error if either is
// invalid.
func (f *specFlags) spec(s *terminal.Session) (spec, error) {
	m, err := readSpec(f.File, s.Stdin)
	if err != nil {
		return nil, err
	}
	for place, text := range map[string]*string{
		"endpoint.url": f.URL, "filter.cel": f.CEL, "policy.body.cel": f.Body, "policy.body.preset": f.Preset, "policy.envelope": f.Envelope, "policy.projection": f.Projection,
		"policy.signature.scheme": f.Scheme, "policy.ordering": f.Ordering, "description": f.Description,
	} {
		if text != nil {
			m.set(*text, strings.Split(place, ".")...)
		}
	}
	for name, value := range f.Header {
		m.set(value, "endpoint", "headers", name)
	}
	if len(f.Types) > 0 {
		m.set(f.Types, "filter", "types")
	}
	if err := f.add(m); err != nil {
		return nil, err
	}
	return m, f.setPolicy(m)
}

// setPolicy adds the flags of the policy. Durations are in the form of the API, such as "15s". The
// server checks the bounds.
func (f *specFlags) setPolicy(m spec) error {
	if f.Window != nil {
		m.set(*f.Window, "policy", "window")
	}
	if f.Timeout != nil {
		m.set(sluice.Duration(*f.Timeout), "policy", "timeout")
	}
	if f.Batch != nil {
		m.set(*f.Batch, "policy", "batch", "max")
	}
	if f.BatchWait != nil {
		m.set(sluice.Duration(*f.BatchWait), "policy", "batch", "wait")
	}
	if f.Debounce != nil {
		m.set(sluice.Duration(*f.Debounce), "policy", "debounce", "quiet")
	}
	if f.DebounceMax != nil {
		m.set(sluice.Duration(*f.DebounceMax), "policy", "debounce", "max")
	}
	if f.Rate != nil {
		m.set(*f.Rate, "policy", "rate", "per_second")
	}
	if f.PerMinute != nil {
		m.set(*f.PerMinute, "policy", "rate", "per_minute")
	}
	if f.RateKey != nil {
		m.set(*f.RateKey, "policy", "rate", "key")
	}
	if f.Retry == "" {
		return nil
	}
	timetable, err := parseRetry(f.Retry)
	if err != nil {
		return err
	}
	m.set(timetable, "policy", "retry")
	return nil
}

// parseRetry parses the name of a preset, or a list of waits. The last attempt follows the last
// wait. "1s,5s,1m" is a custom timetable of four attempts. Text without a digit is a name, which
// the server checks.
func parseRetry(text string) (sluice.Retry, error) {
	if !strings.ContainsAny(text, "0123456789") {
		return sluice.Retry{Preset: sluice.Preset(text)}, nil
	}
	r := sluice.Retry{Preset: sluice.PresetCustom}
	for wait := range strings.SplitSeq(text, ",") {
		step, err := time.ParseDuration(strings.TrimSpace(wait))
		if err != nil {
			return r, terminal.Usagef("--retry %q: write the name of a preset, or waits such as 1s,5s,1m", text)
		}
		r.Steps = append(r.Steps, sluice.Duration(step))
	}
	r.MaxAttempts = len(r.Steps) + 1
	return r, nil
}

// readSpec reads JSON or YAML; an empty spec for "". The fields are not checked here.
func readSpec(file string, stdin io.Reader) (spec, error) {
	m := spec{}
	var data []byte
	var err error
	switch file {
	case "":
		return m, nil
	case "-":
		data, err = io.ReadAll(stdin)
	default:
		data, err = os.ReadFile(filepath.Clean(file))
	}
	if err != nil {
		return nil, fmt.Errorf("read subscription: %w", err)
	}
	if err := yaml.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// subCreateCmd creates a subscription. Target selects the shape of S0 (S0-20), Pattern the other
// one.
type subCreateCmd struct {
	specFlags

	ID       string `help:"ID of the subscription; default: generated." placeholder:"ID"`
	NS       string `name:"ns" help:"Namespace; default: that of --file, else $SLUICE_NS or that of the context, else default." placeholder:"NAME"`
	Default  string `name:"default-ns" hidden:"" env:"SLUICE_NS"`
	Mode     string `help:"push sends events; wake sends notices of streams with new events." placeholder:"push"`
	Pattern  string `help:"Pattern of the events' paths, such as /orders/**." placeholder:"PATTERN"`
	Start    string `help:"Start position: new, all, last_per_path, a sequence or a time." placeholder:"new"`
	Secret   string `help:"Signing secret; default: generated." placeholder:"SECRET"`
	Save     string `name:"save-secret" help:"Write the secret to a new file, for sluice receive --secret-file and others, instead of printing it." placeholder:"FILE"`
	Target   string `help:"Target, instead of --pattern: scope:NAMESPACE or entity:URI. Only --url, --type, --ns, --id, --on-change and --description may accompany it." placeholder:"TARGET"`
	OnChange string `name:"on-change" help:"Notification method of --target: webhook." placeholder:"webhook"`

	Handshake bool `help:"Require a handshake with the endpoint (OPTIONS with WebHook-Request-Origin)."`
}

// s0 returns the specification in the shape with a target (docs/subscriptions.md). It returns a
// usage error for a setting that this shape does not have.
func (c *subCreateCmd) s0(m spec) (spec, error) {
	if c.Target == "" {
		if c.OnChange != "" {
			return nil, terminal.Usagef("--on-change requires --target")
		}
		return m, nil
	}
	words := spec{"target": c.Target, "on_change": cmp.Or(c.OnChange, "webhook")}
	for place, name := range map[string]string{"endpoint.url": "webhook_url", "filter.types": "event_filter", "namespace": "scope"} {
		if value, ok := m.take(strings.Split(place, ".")...); ok {
			words[name] = value
		}
	}
	for _, name := range []string{"mode", "pattern", "start", "filter", "endpoint", "policy"} {
		if _, ok := m[name]; ok {
			return nil, terminal.Usagef("--target excludes %s; use --pattern instead of --target, or omit it", name)
		}
	}
	maps.Copy(m, words)
	return m, nil
}

// Run creates the subscription. The order matters: the definition is checked and the file for the
// secret is created before the request, because the secret is in its response only. Creating the
// same subscription again prints the existing one, without its secret, and succeeds (S0-28). A lost
// response leaves a subscription whose secret must be rotated.
func (c *subCreateCmd) Run(ctx context.Context, s *terminal.Session) error {
	m, err := c.definition(s)
	if err != nil {
		return err
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	file, err := newSecretFile(c.Save)
	if err != nil {
		return err
	}
	return errors.Join(c.create(ctx, s, api, m, file), file.close())
}

// create creates the subscription and prints it. If the secret cannot be saved, it prints the
// secret too.
func (c *subCreateCmd) create(ctx context.Context, s *terminal.Session, api *client.Client, m spec, file *secretFile) error {
	// It is not retried after a lost response: that of the repetition would have no secret.
	sub, created, err := api.CreateSubscription(ctx, m)
	if err != nil {
		return err
	}
	saved, unsaved := file.save(sub.Endpoint.Secret)
	if saved {
		sub.Endpoint.Secret = ""
	}
	return errors.Join(unsaved, s.Show(sub, func() error {
		if created {
			warnOfNames(ctx, s, api, &sub)
			return c.sayCreated(s, sub)
		}
		return s.Say("Subscription %s already exists for the same events and URL, and is unchanged: sluice sub show %s.\n"+
			"Its secret is not shown again; issue a new one with sluice sub rotate %s.", sub.ID, sub.ID, sub.ID)
	}))
}

// definition returns the subscription that the flags define. The namespace of the environment or
// the context applies only if neither --ns nor the file names one.
func (c *subCreateCmd) definition(s *terminal.Session) (spec, error) {
	m, err := c.spec(s)
	if err != nil {
		return nil, err
	}
	for place, text := range map[string]string{
		"id": c.ID, "namespace": c.NS, "mode": c.Mode, "pattern": c.Pattern, "start": c.Start, "endpoint.secret": c.Secret,
	} {
		if text != "" {
			m.set(text, strings.Split(place, ".")...)
		}
	}
	if _, named := m["namespace"]; !named && len(m) > 0 && c.Target == "" && c.Default != "" {
		m.set(c.Default, "namespace")
	}
	if c.Handshake {
		m.set(true, "endpoint", "handshake")
	}
	if m, err = c.s0(m); err != nil {
		return nil, err
	}
	if len(m) == 0 {
		return nil, terminal.Usagef("a definition is required: --pattern and --url, or --file")
	}
	return m, nil
}

// sayCreated prints the secret, or the file that has it.
func (c *subCreateCmd) sayCreated(s *terminal.Session, sub sluice.Subscription) error {
	if sub.Endpoint.Secret == "" {
		return s.Say("Created subscription %s: %s in %s to %s\n\nThe secret with which the receiver verifies requests is in %s, and is not shown again.",
			sub.ID, sub.Pattern, sub.Namespace, sub.Endpoint.URL, c.Save)
	}
	how := "The receiver verifies requests with this secret, which is not shown again:"
	if scheme := sub.Policy.Signature.Scheme; scheme == sluice.SchemeEd25519 || scheme == sluice.SchemeMessage {
		how = "The receiver verifies requests with the public keys at /.well-known/jwks.json of the server.\n" +
			"The secret, for other schemes, is not shown again:"
	}
	return s.Say("Created subscription %s: %s in %s to %s\n\n%s\n\n  %s\n",
		sub.ID, sub.Pattern, sub.Namespace, sub.Endpoint.URL, how, sub.Endpoint.Secret)
}

// subEditCmd changes a subscription. Revision 0 is any revision. A header without a value is
// removed.
type subEditCmd struct {
	specFlags

	ID       string `arg:"" help:"Subscription."`
	Revision uint64 `help:"Required current revision." placeholder:"N"`

	Handshake *bool `negatable:"" help:"Change only after the endpoint has agreed (OPTIONS with WebHook-Request-Origin), now and whenever its URL changes; --no-handshake: do not ask any more."`
}

// Run changes the settings that the flags name. It removes a header whose flag has no value. The
// change needs the verb admin (S4-69). With --revision, it is refused with RevisionMismatch if the
// subscription has changed meanwhile; without, the last change wins. Identity and, in mode wake,
// everything except enabled and the metadata cannot change (C08, S1-04).
func (c *subEditCmd) Run(ctx context.Context, s *terminal.Session) error {
	m, err := c.spec(s)
	if err != nil {
		return err
	}
	for name, value := range c.Header {
		if value == "" {
			m.set(nil, "endpoint", "headers", name)
		}
	}
	if c.Handshake != nil {
		m.set(*c.Handshake, "endpoint", "handshake")
	}
	if len(m) == 0 {
		return terminal.Usagef("nothing to change: set a flag, or --file")
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	sub, err := api.PatchSubscription(ctx, c.ID, m, c.Revision)
	if err != nil {
		return err
	}
	return showSubscription(s, sub)
}
