package sluice

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of a subscription.
const (
	MaxWindow        = 1024
	MaxBatch         = 500 // events
	MaxBatchWait     = 5 * time.Minute
	MinQuiet         = 100 * time.Millisecond
	MaxQuiet         = 24 * time.Hour
	MinTimeout       = time.Second
	MaxTimeout       = 60 * time.Second
	MaxDescription   = 1024 // bytes
	MaxMetadata      = 64   // entries
	MaxMetadataValue = 1024 // bytes; keys: 64
	MaxFilterValues  = 64   // of one dimension; keys of labels
	MaxCEL           = 4096 // bytes
	MaxHeaders       = 32
	MaxHeaderValue   = 4096 // bytes
	MaxURL           = 2048 // bytes
	maxKey           = 64   // bytes of the key of a label or of metadata
)

// Validate checks all rules that need only the subscription, with its defaults set. It does not
// check the numbers of the retry schedule, the CEL expression and the endpoint's address: the
// packages that use them do.
func (s *Subscription) Validate() error {
	return cmp.Or(
		CheckNamespaceName(s.Namespace),
		oneOf("mode", s.Mode, Push, Wake),
		s.checkPattern(),
		s.Filter.check(),
		s.Endpoint.check(),
		checkStart(s.Start),
		s.checkMode(),
		s.Policy.check(),
		s.checkSignature(),
		atLeast("replay_window", s.ReplayWindow, 0),
		text("description", s.Description, MaxDescription),
		checkMetadata(s.Metadata),
		text("idempotency_key", s.IdempotencyKey, MaxIDBytes),
	)
}

// Validate returns an error (InvalidRequest) unless the namespace's name and limits are valid.
func (n *Namespace) Validate() error {
	return cmp.Or(
		CheckNamespaceName(n.Name),
		text("description", n.Description, MaxDescription),
		n.checkWindows(),
		n.checkBytes(),
		n.Quota.Check(),
		oneOf("catalogue", n.Catalogue, "", CatalogueOpen, CatalogueStrict),
	)
}

func (n *Namespace) checkWindows() error {
	age, dedup := n.Retention.MaxAge.Std(), n.DedupWindow.Std()
	switch {
	case age != 0 && age < time.Second && age != -time.Second:
		return Errorf(InvalidRequest, "retention.max_age %s: use at least 1s, 0 for the default or -1s for unlimited", age).With("field", "retention.max_age")
	case dedup != 0 && dedup < time.Second:
		return Errorf(InvalidRequest, "dedup_window %s: use at least 1s, or 0 for the default", dedup).With("field", "dedup_window")
	}
	return nil
}

// minBytes is the minimum size limit of a log: the size of a small event.
const minBytes = 1 << 10

func (n *Namespace) checkBytes() error {
	if bytes := n.Retention.MaxBytes; bytes != 0 && bytes != -1 && bytes < minBytes {
		return Errorf(InvalidRequest, "retention.max_bytes %d: use at least %d, 0 for the default or -1 for unlimited", bytes, minBytes).With("field", "retention.max_bytes")
	}
	return nil
}

func (s *Subscription) checkPattern() error {
	canonical, err := ParsePattern(string(s.Pattern))
	if err == nil && canonical != s.Pattern {
		return Errorf(InvalidRequest, "pattern %q: write it as %q", s.Pattern, canonical).With("field", "pattern")
	}
	return err
}

func checkStart(start string) error {
	_, err := ParseStart(start, 1)
	return err
}

// Check returns an error (InvalidRequest) unless every dimension of the filter is valid. It does
// not check the expression.
func (f Filter) Check() error { return f.check() }

func (f Filter) check() error {
	err := cmp.Or(
		CheckTypePatterns("filter.types", f.Types),
		values("filter.sources", f.Sources),
		values("filter.subjects", f.Subjects),
		text("filter.cel", f.CEL, MaxCEL),
		count("filter.labels", len(f.Labels), MaxFilterValues),
	)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		if key == "" || len(key) > maxKey {
			return Errorf(InvalidRequest, "filter.labels: use keys of 1 to %d bytes", maxKey).With("field", "filter.labels")
		}
		if len(f.Labels[key]) == 0 {
			return Errorf(InvalidRequest, "filter.labels.%s is empty and would match nothing; omit it or add values", key).With("field", "filter.labels."+key)
		}
		if err := values("filter.labels."+key, f.Labels[key]); err != nil {
			return err
		}
	}
	return nil
}

// CheckTypePatterns returns an error (InvalidRequest) unless the types are at most MaxFilterValues,
// each with a star nowhere but as the whole type or after the last dot.
func CheckTypePatterns(field string, types []string) error {
	for _, t := range types {
		stem := strings.TrimSuffix(t, ".*")
		if t != "*" && (stem == "" || strings.Contains(stem, "*")) {
			return Errorf(InvalidRequest, "%s %q: use a type, a prefix that ends in .* (order.*) or *", field, t).With("field", field)
		}
	}
	return values(field, types)
}

func values(field string, list []string) error {
	if err := count(field, len(list), MaxFilterValues); err != nil {
		return err
	}
	for _, v := range list {
		if err := text(field, v, MaxMetadataValue); err != nil {
			return err
		}
	}
	return nil
}

func (e Endpoint) check() error {
	if len(e.Exec) > 0 {
		if e.URL != "" || len(e.Headers) > 0 || e.Handshake || e.Auth != nil || e.TLS != nil {
			return Errorf(InvalidRequest, "endpoint.exec is in place of url, headers, handshake, auth and tls; write one of them").With("field", "endpoint.exec")
		}
		return nil
	}
	return cmp.Or(CheckURL("endpoint.url", e.URL), checkHeaders(e.Headers), e.Auth.check(), e.TLS.check(e.URL))
}

// CheckURL returns an error (InvalidRequest) unless an address has the form of an endpoint's URL.
// The message names the field what.
func CheckURL(what, address string) error {
	if address == "" {
		return Errorf(InvalidRequest, "%s is missing; use an absolute URL such as https://example.com/hook", what).With("field", what)
	}
	if err := text(what, address, MaxURL); err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err == nil && u.Path == hiddenPath {
		return Errorf(InvalidRequest, "%s ends in %s, the masked form shown to other callers; omit it, or write the full URL", what, hiddenPath).With("field", what)
	}
	if err != nil || !u.IsAbs() || u.Hostname() == "" {
		return Errorf(InvalidRequest, "%s %q: use an absolute URL such as https://example.com/hook", what, address).With("field", what)
	}
	return nil
}

func checkHeaders(headers map[string]string) error {
	if err := count("endpoint.headers", len(headers), MaxHeaders); err != nil {
		return err
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if err := checkHeaderName("endpoint.headers", name); err != nil {
			return err
		}
		lower := strings.ToLower(name)
		if first, twice := seen[lower]; twice {
			return Errorf(InvalidRequest, "endpoint.headers: %q and %q are the same header", first, name).With("field", "endpoint.headers")
		}
		seen[lower] = name
		value := headers[name]
		if len(value) > MaxHeaderValue || strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && control(r) }) {
			return Errorf(InvalidRequest, "endpoint.headers: the value of %q is too long or has control characters", name).With("field", "endpoint.headers")
		}
	}
	return nil
}

const tokenBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"

// checkHeaderName returns an error if the name is not a token (RFC 9110), or if only the sender may
// set the header: the headers of HTTP framing, of the event and of the signature, and credentials
// (C37).
func checkHeaderName(field, name string) error {
	lower := strings.ToLower(name)
	if name == "" || len(name) > maxKey || strings.Trim(name, tokenBytes) != "" {
		return Errorf(InvalidRequest, "%s: %q is not a header name", field, name).With("field", field)
	}
	for _, prefix := range []string{"webhook-", "ce-", "proxy-", "sec-"} {
		if strings.HasPrefix(lower, prefix) {
			return Errorf(InvalidRequest, "%s: %q is reserved; choose a name that does not start with %s", field, name, prefix).With("field", field)
		}
	}
	switch lower {
	case "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie", "date", "expect", "host",
		"keep-alive", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return Errorf(InvalidRequest, "%s: %q is reserved; choose another name", field, name).With("field", field)
	}
	return nil
}

func (p Policy) check() error {
	return cmp.Or(
		oneOf("policy.retry.preset", p.Retry.Preset, PresetStandard, PresetShort, PresetPersistent, PresetStepped, PresetCustom),
		atLeast("policy.timeout", p.Timeout, Duration(MinTimeout)),
		atMost("policy.timeout", p.Timeout, Duration(MaxTimeout)),
		atLeast("policy.window", p.Window, 1),
		atMost("policy.window", p.Window, MaxWindow),
		atLeast("policy.rate.per_second", p.Rate.PerSecond, 0),
		atLeast("policy.rate.per_minute", p.Rate.PerMinute, 0),
		p.Rate.checkKey(),
		oneOf("policy.ordering", p.Ordering, OrderByPath, OrderAll, OrderNone),
		oneOf("policy.envelope", p.Envelope, EnvelopeCloudEvents, EnvelopeBinary, EnvelopeFact, EnvelopeAttempt, EnvelopeRaw, EnvelopeTemplate, EnvelopeNotice),
		oneOf("policy.projection", p.Projection, ProjectionFull, ProjectionSummary, ProjectionNone),
		p.checkProjection(),
		p.checkBody(),
		oneOf("policy.signature.scheme", p.Signature.Scheme, SchemeStandard, SchemeEd25519, SchemeT, SchemeHeader, SchemeMessage),
		oneOf("policy.on_gone", p.OnGone, GoneCancels, GoneRetries),
		oneOf("policy.on_dead", p.OnDead, DeadContinues, DeadHolds),
		atLeast("policy.disable_after", p.DisableAfter, 0),
		p.checkBatch(),
		p.checkDebounce(),
	)
}

// checkDebounce returns an error for times that make no sense, and for orderings without a lane for
// each path.
func (p Policy) checkDebounce() error {
	if p.Debounce == (Debounce{}) {
		return nil
	}
	if p.Ordering != OrderByPath {
		return Errorf(Unprocessable, "policy.ordering %q: policy.debounce needs the ordering %q, which is chosen at the creation, and no policy.batch", p.Ordering, OrderByPath).
			With("field", "policy.ordering")
	}
	if most := p.Debounce.Max; most > 0 && most < p.Debounce.Quiet {
		return Errorf(InvalidRequest, "policy.debounce.max is %s; use at least policy.debounce.quiet, %s, or omit it", most, p.Debounce.Quiet).With("field", "policy.debounce.max")
	}
	return cmp.Or(
		atLeast("policy.debounce.quiet", p.Debounce.Quiet, Duration(MinQuiet)),
		atMost("policy.debounce.quiet", p.Debounce.Quiet, Duration(MaxQuiet)),
		atLeast("policy.debounce.max", p.Debounce.Max, 0),
		atMost("policy.debounce.max", p.Debounce.Max, Duration(MaxQuiet)),
	)
}

// checkBatch returns an error if a batch is combined with settings for single events.
func (p Policy) checkBatch() error {
	if p.Batch == (Batch{}) {
		return nil
	}
	if p.Batch.Max == 0 {
		return Errorf(InvalidRequest, "policy.batch.max is missing; use 1 to %d events", MaxBatch).With("field", "policy.batch.max")
	}
	if p.Ordering != OrderAll {
		return Errorf(Unprocessable, "policy.ordering %q: policy.batch needs the ordering %q, which is chosen at the creation", p.Ordering, OrderAll).
			With("field", "policy.ordering")
	}
	if p.Envelope != EnvelopeCloudEvents {
		return Errorf(Unprocessable, "policy.envelope %q: batches have the envelope %s", p.Envelope, EnvelopeCloudEvents).With("field", "policy.envelope")
	}
	return cmp.Or(
		atLeast("policy.batch.max", p.Batch.Max, 1),
		atMost("policy.batch.max", p.Batch.Max, MaxBatch),
		atLeast("policy.batch.wait", p.Batch.Wait, 0),
		atMost("policy.batch.wait", p.Batch.Wait, Duration(MaxBatchWait)),
	)
}

func (r Rate) checkKey() error {
	if r.Key != "" && r.PerSecond == 0 && r.PerMinute == 0 {
		return Errorf(InvalidRequest, "policy.rate.key requires per_second or per_minute").With("field", "policy.rate.key")
	}
	return text("policy.rate.key", r.Key, maxKey)
}

// checkProjection returns an error if the policy omits data with the envelope raw, which sends only
// data and cannot link to the rest.
func (p Policy) checkProjection() error {
	if p.Envelope == EnvelopeRaw && p.Projection != ProjectionFull {
		return Errorf(Unprocessable, "policy.projection %q: the envelope raw contains only the data; use another envelope, or the projection %s", p.Projection, ProjectionFull).
			With("field", "policy.projection")
	}
	return nil
}

func (s *Subscription) checkSignature() error {
	if s.Endpoint.Secret != "" {
		if err := s.Policy.Signature.Scheme.CheckSecret(s.Endpoint.Secret); err != nil {
			return err
		}
	}
	name := s.Policy.Signature.Name
	if s.Policy.Signature.Scheme != SchemeHeader {
		if name != "" {
			return Errorf(InvalidRequest, "policy.signature.name requires the scheme %s", SchemeHeader).With("field", "policy.signature.name")
		}
		return nil
	}
	if err := checkHeaderName("policy.signature.name", name); err != nil {
		return err
	}
	for other := range s.Endpoint.Headers {
		if strings.EqualFold(other, name) {
			return Errorf(InvalidRequest, "endpoint.headers: %q is the signature header", other).With("field", "endpoint.headers")
		}
	}
	return nil
}

// checkMode returns an error for settings that have no effect in the subscription's mode. Accepting
// and ignoring them would be worse.
func (s *Subscription) checkMode() error {
	p := &s.Policy
	if s.Mode != Wake {
		if p.Envelope == EnvelopeNotice {
			return Errorf(Unprocessable, "policy.envelope %q requires mode %s", p.Envelope, Wake).With("field", "policy.envelope")
		}
		if len(s.Endpoint.Exec) > 0 && p.Batch.Max > 0 {
			return Errorf(Unprocessable, "policy.batch is for webhooks; a program gets one event at a time").With("field", "policy.batch")
		}
		return nil
	}
	for _, f := range []struct {
		name  string
		wrong bool
	}{
		{"filter", !s.Filter.Empty()},
		{"start", s.Start != StartNew},
		{"policy.envelope", p.Envelope != EnvelopeNotice},
		{"policy.projection", p.Projection != ProjectionNone},
		{"policy.signature", p.Signature.Scheme != SchemeT},
		{"policy.ordering", p.Ordering != OrderByPath},
		{"policy.rate", p.Rate != Rate{}},
		{"policy.on_gone", p.OnGone != GoneRetries},
		{"policy.on_dead", p.OnDead != DeadContinues},
		{"policy.dedicated", p.Dedicated},
		{"policy.body", p.Body != nil},
		{"endpoint.auth", s.Endpoint.Auth != nil},
		{"endpoint.tls", s.Endpoint.TLS != nil},
		{"policy.batch", p.Batch != Batch{}},
		{"policy.debounce", p.Debounce != Debounce{}},
	} {
		if f.wrong {
			return Errorf(Unprocessable, "%s cannot be set in mode %s; omit it", f.name, Wake).With("field", f.name)
		}
	}
	return nil
}

func checkMetadata(metadata map[string]string) error {
	if err := count("metadata", len(metadata), MaxMetadata); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if key == "" || len(key) > maxKey {
			return Errorf(InvalidRequest, "metadata: use keys of 1 to %d bytes", maxKey).With("field", "metadata")
		}
		if err := text("metadata."+key, metadata[key], MaxMetadataValue); err != nil {
			return err
		}
	}
	return nil
}

func oneOf[T ~string](field string, got T, allowed ...T) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return Errorf(InvalidRequest, "%s %q: use %s", field, string(got), strings.Join(names, ", ")).With("field", field)
}

func atLeast[T cmp.Ordered](field string, got, least T) error {
	if got >= least {
		return nil
	}
	return Errorf(InvalidRequest, "%s is %v; use at least %v", field, got, least).With("field", field)
}

func atMost[T cmp.Ordered](field string, got, most T) error {
	if got <= most {
		return nil
	}
	return Errorf(InvalidRequest, "%s is %v; use at most %v", field, got, most).With("field", field)
}

func count(field string, got, most int) error {
	if got <= most {
		return nil
	}
	return Errorf(InvalidRequest, "%s has %d entries; use at most %d", field, got, most).With("field", field)
}

func text(field, s string, most int) error {
	if len(s) > most {
		return Errorf(InvalidRequest, "%s has %d bytes; use at most %d", field, len(s), most).With("field", field)
	}
	if !utf8.ValidString(s) {
		return Errorf(InvalidRequest, "%s is not UTF-8", field).With("field", field)
	}
	return nil
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }
