package sluice_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func valid() *sluice.Subscription {
	s := &sluice.Subscription{
		Namespace: "acme", Pattern: "/orders/**", Endpoint: sluice.Endpoint{URL: "https://erp.example/hook"},
		Filter: sluice.Filter{Types: []string{"order.*"}, Labels: map[string][]string{"region": {"eu"}}},
	}
	s.SetDefaults()
	return s
}

// The contract's example of a subscription.
func TestDefaults_AreTheContracts(t *testing.T) {
	t.Parallel()
	s := &sluice.Subscription{Pattern: "/a/**/**"}
	s.SetDefaults()
	require.Equal(t, &sluice.Subscription{
		Mode: sluice.Push, Pattern: "/a/**", Start: "new", ReplayWindow: sluice.Duration(time.Hour),
		Policy: sluice.Policy{
			Retry: sluice.Retry{Preset: sluice.PresetStandard}, Timeout: sluice.Duration(15 * time.Second), Window: 64,
			Ordering: sluice.OrderByPath, Envelope: sluice.EnvelopeCloudEvents, Projection: "full",
			Signature: sluice.Signature{Scheme: sluice.SchemeStandard}, OnGone: sluice.GoneCancels, OnDead: sluice.DeadContinues,
			DisableAfter: sluice.Duration(120 * time.Hour),
		},
	}, s)
	again := *s
	again.SetDefaults()
	require.Equal(t, *s, again)
}

// S1-04, S1-65: what is told of streams with news.
func TestDefaults_OfAWakeAreThoseOfS1(t *testing.T) {
	t.Parallel()
	s := &sluice.Subscription{Mode: sluice.Wake, Pattern: "/a"}
	s.SetDefaults()
	require.Equal(t, sluice.Policy{
		Retry: sluice.Retry{Preset: sluice.PresetPersistent}, Timeout: sluice.Duration(30 * time.Second), Window: 1024,
		Ordering: sluice.OrderByPath, Envelope: sluice.EnvelopeNotice, Projection: "none",
		Signature: sluice.Signature{Scheme: sluice.SchemeT}, OnGone: sluice.GoneRetries, OnDead: sluice.DeadContinues,
		DisableAfter: sluice.Duration(120 * time.Hour),
	}, s.Policy)
}

// A setting that a mode cannot heed is refused.
func TestMode_RefusesFieldsOfOtherModes(t *testing.T) {
	t.Parallel()
	push := valid()
	push.Policy.Envelope = sluice.EnvelopeNotice
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(push.Validate()))
	wake := func() *sluice.Subscription {
		s := &sluice.Subscription{Namespace: "acme", Mode: sluice.Wake, Pattern: "/a/**", Endpoint: sluice.Endpoint{URL: "https://a.example"}}
		s.SetDefaults()
		return s
	}
	require.NoError(t, wake().Validate())
	for field, change := range map[string]func(*sluice.Subscription){
		"filter":            func(s *sluice.Subscription) { s.Filter.Types = []string{"a"} },
		"start":             func(s *sluice.Subscription) { s.Start = "all" },
		"policy.envelope":   func(s *sluice.Subscription) { s.Policy.Envelope = sluice.EnvelopeFact },
		"policy.projection": func(s *sluice.Subscription) { s.Policy.Projection = "full" },
		"policy.signature":  func(s *sluice.Subscription) { s.Policy.Signature.Scheme = sluice.SchemeStandard },
		"policy.ordering":   func(s *sluice.Subscription) { s.Policy.Ordering = sluice.OrderAll },
		"policy.rate":       func(s *sluice.Subscription) { s.Policy.Rate.PerMinute = 1 },
		"policy.on_gone":    func(s *sluice.Subscription) { s.Policy.OnGone = sluice.GoneCancels },
		"policy.on_dead":    func(s *sluice.Subscription) { s.Policy.OnDead = sluice.DeadHolds },
	} {
		s := wake()
		change(s)
		err := s.Validate()
		require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err), field)
		require.EqualError(t, err, field+" cannot be set in mode wake; omit it")
	}
}

func TestDefaults_KeepTheCallersValues(t *testing.T) {
	t.Parallel()
	s := &sluice.Subscription{Start: "all", Policy: sluice.Policy{Window: 3, Signature: sluice.Signature{Scheme: sluice.SchemeHeader}}}
	s.SetDefaults()
	require.Equal(t, "all", s.Start)
	require.Equal(t, 3, s.Policy.Window)
	require.Equal(t, "X-Fole-Signature", s.Policy.Signature.Name) // S4-49
	require.False(t, s.Enabled)
}

// Issue 18, item 10.
func TestBatch_IsCheckedWithTheSettingsBesideIt(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*sluice.Subscription){
		"policy.batch.max":  func(s *sluice.Subscription) { s.Policy.Batch.Max = 501 },
		"policy.batch.wait": func(s *sluice.Subscription) { s.Policy.Batch.Wait = sluice.Duration(6 * time.Minute) },
		"policy.ordering":   func(s *sluice.Subscription) { s.Policy.Ordering = sluice.OrderByPath },
		"policy.envelope":   func(s *sluice.Subscription) { s.Policy.Envelope = sluice.EnvelopeBinary },
		"policy.batch":      func(s *sluice.Subscription) { s.Endpoint = sluice.Endpoint{Exec: []string{"x"}} },
	} {
		s := valid()
		s.Policy.Ordering, s.Policy.Envelope, s.Policy.Batch.Max = "", "", 500
		s.SetDefaults()
		require.Equal(t, sluice.OrderAll, s.Policy.Ordering)
		require.Equal(t, 1000, s.Policy.MaxPending())
		require.NoError(t, s.Validate())
		change(s)
		err := s.Validate()
		e, ok := errors.AsType[*sluice.Error](err)
		require.True(t, ok, field)
		require.Equal(t, field, e.Details["field"], err)
	}
	s := valid()
	s.Policy.Batch.Wait = 1
	require.ErrorContains(t, s.Validate(), "policy.batch.max is missing")
}

// Issue 18, item 10.
func TestDebounce_IsCheckedWithTheOrdering(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*sluice.Subscription){
		"policy.debounce.quiet": func(s *sluice.Subscription) { s.Policy.Debounce.Quiet = sluice.Duration(time.Millisecond) },
		"policy.debounce.max":   func(s *sluice.Subscription) { s.Policy.Debounce.Max = sluice.Duration(time.Second) },
		"policy.ordering":       func(s *sluice.Subscription) { s.Policy.Ordering = sluice.OrderAll },
	} {
		s := valid()
		s.Policy.Ordering, s.Policy.Debounce = "", sluice.Debounce{Quiet: sluice.Duration(10 * time.Second), Max: sluice.Duration(time.Minute)}
		s.SetDefaults()
		require.NoError(t, s.Validate())
		change(s)
		e, ok := errors.AsType[*sluice.Error](s.Validate())
		require.True(t, ok, field)
		require.Equal(t, field, e.Details["field"])
	}
}

func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "v" + strconv.Itoa(i)
	}
	return out
}

func dict(n, size int) map[string]string {
	out := map[string]string{}
	for _, k := range many(n) {
		out[k] = strings.Repeat("x", size)
	}
	return out
}

func TestSubscription_AcceptsValidOnes(t *testing.T) {
	t.Parallel()
	require.NoError(t, valid().Validate())
	for name, change := range map[string]func(*sluice.Subscription){
		"the largest window":    func(s *sluice.Subscription) { s.Policy.Window = 1024 },
		"the longest timeout":   func(s *sluice.Subscription) { s.Policy.Timeout = sluice.Duration(time.Minute) },
		"never disabled":        func(s *sluice.Subscription) { s.Policy.DisableAfter = 0 },
		"all types":             func(s *sluice.Subscription) { s.Filter.Types = []string{"*", "a", "a.*", "a.b.*"} },
		"as many values as may": func(s *sluice.Subscription) { s.Filter.Sources = many(64) },
		"as much metadata":      func(s *sluice.Subscription) { s.Metadata = dict(64, 1024) },
		"long keys": func(s *sluice.Subscription) {
			key := strings.Repeat("k", 64)
			s.Metadata, s.Filter.Labels = map[string]string{key: ""}, map[string][]string{key: {strings.Repeat("x", 1024)}}
		},
		"long headers": func(s *sluice.Subscription) {
			s.Endpoint.Headers = map[string]string{strings.Repeat("h", 64): strings.Repeat("x", 4096)}
		},
		"headers":                 func(s *sluice.Subscription) { s.Endpoint.Headers = map[string]string{"x-env": "prod", "X_y": "a\tb"} },
		"a signature header":      func(s *sluice.Subscription) { s.Policy.Signature = sluice.Signature{Scheme: "header", Name: "X-Sig"} },
		"a secret":                func(s *sluice.Subscription) { s.Endpoint.Secret = whsec(32) },
		"a start at a time":       func(s *sluice.Subscription) { s.Start = "2026-01-01T00:00:00Z" },
		"an address to be judged": func(s *sluice.Subscription) { s.Endpoint.URL = "http://127.0.0.1:1/x" },
	} {
		s := valid()
		change(s)
		require.NoError(t, s.Validate(), name)
	}
}

func TestSubscription_ErrorsSayTheRightForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*sluice.Subscription)
		says   string
	}{
		"no namespace":      {func(s *sluice.Subscription) { s.Namespace = "" }, "namespace"},
		"another mode":      {func(s *sluice.Subscription) { s.Mode = "carrier-pigeon" }, "use push"},
		"no slash":          {func(s *sluice.Subscription) { s.Pattern = "a" }, "pattern \"a\" does not start with /"},
		"no scheme":         {func(s *sluice.Subscription) { s.Endpoint.URL = "//host/hook" }, "absolute"},
		"no host":           {func(s *sluice.Subscription) { s.Endpoint.URL = "https:///hook" }, "absolute"},
		"no URL at all":     {func(s *sluice.Subscription) { s.Endpoint.URL = "https://[::1" }, "absolute"},
		"a hidden URL":      {func(s *sluice.Subscription) { s.Endpoint.URL = "https://a.example/***" }, "ends in /***"},
		"a metadata's key":  {func(s *sluice.Subscription) { s.Metadata = map[string]string{strings.Repeat("k", 65): "x"} }, "1 to 64 bytes"},
		"no pattern":        {func(s *sluice.Subscription) { s.Pattern = "" }, "pattern \"\" does not start with /"},
		"not canonical":     {func(s *sluice.Subscription) { s.Pattern = "/a/**/**" }, `write it as "/a/**"`},
		"no address":        {func(s *sluice.Subscription) { s.Endpoint.URL = "" }, "endpoint.url"},
		"half an address":   {func(s *sluice.Subscription) { s.Endpoint.URL = "/hook" }, "absolute"},
		"a long address":    {func(s *sluice.Subscription) { s.Endpoint.URL = "https://a/" + strings.Repeat("a", 2048) }, "at most 2048"},
		"start":             {func(s *sluice.Subscription) { s.Start = "later" }, "last_per_path"},
		"preset":            {func(s *sluice.Subscription) { s.Policy.Retry.Preset = "often" }, "standard, short, persistent, stepped, custom"},
		"no timeout":        {func(s *sluice.Subscription) { s.Policy.Timeout = 1 }, "at least 1s"},
		"a long timeout":    {func(s *sluice.Subscription) { s.Policy.Timeout = sluice.Duration(61 * time.Second) }, "at most 1m0s"},
		"a negative window": {func(s *sluice.Subscription) { s.Policy.Window = -1 }, "at least 1"},
		"a large window":    {func(s *sluice.Subscription) { s.Policy.Window = 1025 }, "at most 1024"},
		"a negative rate":   {func(s *sluice.Subscription) { s.Policy.Rate.PerSecond = -0.1 }, "at least 0"},
		"a negative minute": {func(s *sluice.Subscription) { s.Policy.Rate.PerMinute = -1 }, "policy.rate.per_minute"},
		"no rate":           {func(s *sluice.Subscription) { s.Policy.Rate.PerSecond = math.NaN() }, "at least 0"},
		"ordering":          {func(s *sluice.Subscription) { s.Policy.Ordering = "key" }, "path, all, none"},
		"envelope":          {func(s *sluice.Subscription) { s.Policy.Envelope = "xml" }, "cloudevents-binary"},
		"projection":        {func(s *sluice.Subscription) { s.Policy.Projection = "half" }, "use full"},
		"scheme":            {func(s *sluice.Subscription) { s.Policy.Signature.Scheme = "md5" }, "t-sha256"},
		"on_gone":           {func(s *sluice.Subscription) { s.Policy.OnGone = "weep" }, "cancel, retry"},
		"on_dead":           {func(s *sluice.Subscription) { s.Policy.OnDead = "weep" }, "use continue, hold"},
		"disable_after":     {func(s *sluice.Subscription) { s.Policy.DisableAfter = -1 }, "disable_after"},
		"replay_window":     {func(s *sluice.Subscription) { s.ReplayWindow = -1 }, "replay_window"},
		"description":       {func(s *sluice.Subscription) { s.Description = strings.Repeat("x", 1025) }, "at most 1024"},
		"not UTF-8":         {func(s *sluice.Subscription) { s.Description = "\xff" }, "UTF-8"},
		"much metadata":     {func(s *sluice.Subscription) { s.Metadata = dict(65, 1) }, "at most 64"},
		"large metadata":    {func(s *sluice.Subscription) { s.Metadata = dict(1, 1025) }, "at most 1024"},
		"a metadata key":    {func(s *sluice.Subscription) { s.Metadata = map[string]string{"": "x"} }, "keys"},
		"idempotency_key":   {func(s *sluice.Subscription) { s.IdempotencyKey = strings.Repeat("x", 257) }, "at most 256"},
	} {
		s := valid()
		c.change(s)
		err := s.Validate()
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
		require.ErrorContains(t, err, c.says, name)
	}
}

func TestFilter_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]sluice.Filter{
		"an empty type":     {Types: []string{""}},
		"a bare suffix":     {Types: []string{".*"}},
		"a star in between": {Types: []string{"a.*.b"}},
		"a star in a word":  {Types: []string{"ord*"}},
		"two stars":         {Types: []string{"a.*.*"}},
		"many types":        {Types: many(65)},
		"many sources":      {Sources: many(65)},
		"many subjects":     {Subjects: many(65)},
		"a long value":      {Subjects: []string{strings.Repeat("x", 1025)}},
		"many labels": {Labels: maps.Collect(func(yield func(string, []string) bool) {
			slices.Values(many(65))(func(k string) bool { return yield(k, []string{"v"}) })
		})},
		"many label values":  {Labels: map[string][]string{"region": many(65)}},
		"a label of nothing": {Labels: map[string][]string{"region": {}}},
		"a long label":       {Labels: map[string][]string{strings.Repeat("k", 65): {"x"}}},
		"a nameless label":   {Labels: map[string][]string{"": {"x"}}},
		"a long expression":  {CEL: strings.Repeat("x", 4097)},
	} {
		s := valid()
		s.Filter = f
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(s.Validate()), name)
	}
}

func TestHeaders_RefuseThoseOfTheSender(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "a b", "a:b", "é", "\u212aey", "x\n", strings.Repeat("x", 65), "Host", "content-type", "Content-Length", "Transfer-Encoding", "Connection",
		"webhook-id", "Webhook-Signature", "ce-id", "CE-x", "traceparent", "Authorization", "Cookie", "Proxy-Authorization", "User-Agent",
	} {
		s := valid()
		s.Endpoint.Headers = map[string]string{name: "x"}
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(s.Validate()), name)
		s = valid()
		s.Policy.Signature = sluice.Signature{Scheme: sluice.SchemeHeader, Name: name}
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(s.Validate()), name)
	}
	for name, headers := range map[string]map[string]string{
		"a line break":        {"x-a": "a\r\nb: c"},
		"a long value":        {"x-a": strings.Repeat("x", 4097)},
		"too many":            dict(33, 1),
		"the same twice":      {"x-a": "1", "X-A": "2"},
		"the signature's own": {"x-sig": "1"},
	} {
		s := valid()
		s.Endpoint.Headers = headers
		s.Policy.Signature = sluice.Signature{Scheme: sluice.SchemeHeader, Name: "X-Sig"}
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(s.Validate()), name)
	}
}

func TestSecret_FitsItsScheme(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Endpoint.Secret = "short"
	require.Equal(t, sluice.SecretTooShort, sluice.CodeOf(s.Validate()))
	s.Endpoint.Secret = strings.Repeat("x", 40)
	require.ErrorContains(t, s.Validate(), "whsec_")
	s.Policy.Signature.Scheme = sluice.SchemeT
	require.NoError(t, s.Validate())
	s.Policy.Signature.Name = "X-Sig"
	require.ErrorContains(t, s.Validate(), "signature.name")
}

func TestNamespace_LimitsAreChecked(t *testing.T) {
	t.Parallel()
	day := sluice.Duration(24 * time.Hour)
	second := sluice.Duration(time.Second)
	for _, ns := range []sluice.Namespace{
		{Name: "a"},
		{Name: "a", Retention: sluice.Retention{MaxAge: -second, MaxBytes: 1024}, Quota: sluice.Quota{EventsPerSecond: -1, BytesPerSecond: -1}},
		{Name: "a", Retention: sluice.Retention{MaxAge: day}, DedupWindow: day},
		{Name: "a", Retention: sluice.Retention{MaxAge: second}, DedupWindow: second},
		{Name: "a", Quota: sluice.Quota{EventsPerSecond: 1 << 30, Burst: 1 << 30, BytesPerSecond: 1 << 30}},
	} {
		require.NoError(t, ns.Validate())
	}
	for _, ns := range []sluice.Namespace{
		{},
		{Name: "a", Retention: sluice.Retention{MaxAge: 1}},
		{Name: "a", Retention: sluice.Retention{MaxAge: -1}},
		{Name: "a", Retention: sluice.Retention{MaxAge: -5 * second}},
		{Name: "a", Quota: sluice.Quota{EventsPerSecond: -2}},
		{Name: "a", Quota: sluice.Quota{EventsPerSecond: -0.5}},
		{Name: "a", Quota: sluice.Quota{BytesPerSecond: -2}},
		{Name: "a", Quota: sluice.Quota{EventsPerSecond: 1<<30 + 1}},
		{Name: "a", Quota: sluice.Quota{BytesPerSecond: 1<<30 + 1}},
		{Name: "a", Quota: sluice.Quota{Burst: 1<<30 + 1}},
		{Name: "a", Quota: sluice.Quota{Burst: -1}},
		{Name: "a", Retention: sluice.Retention{MaxBytes: -2}},
		{Name: "a", Retention: sluice.Retention{MaxBytes: 10}},
		{Name: "a", DedupWindow: -1},
		{Name: "a", DedupWindow: 1},
		{Name: "a", Description: strings.Repeat("x", 1025)},
	} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(ns.Validate()), ns)
	}
}

// C39: what a namespace leaves out is the server's.
func TestQuota_InForceFillsInDefaults(t *testing.T) {
	t.Parallel()
	defaults := sluice.Quota{EventsPerSecond: 100, Burst: 300, BytesPerSecond: 5000}
	for _, c := range []struct{ is, want sluice.Quota }{
		{sluice.Quota{}, defaults},
		{sluice.Quota{Burst: 7}, sluice.Quota{EventsPerSecond: 100, Burst: 7, BytesPerSecond: 5000}},
		{sluice.Quota{EventsPerSecond: 2.5}, sluice.Quota{EventsPerSecond: 2.5, Burst: 3, BytesPerSecond: 5000}},
		{sluice.Quota{EventsPerSecond: 2, Burst: 7, BytesPerSecond: 9}, sluice.Quota{EventsPerSecond: 2, Burst: 7, BytesPerSecond: 9}},
		{sluice.Quota{EventsPerSecond: -1, BytesPerSecond: -1}, sluice.Quota{EventsPerSecond: -1, BytesPerSecond: -1}},
	} {
		require.Equal(t, c.want, c.is.InForce(defaults), "%+v", c.is)
	}
	require.Equal(t, sluice.Quota{}, sluice.Quota{}.InForce(sluice.Quota{}))
}

func TestProjection_IsRefusedForRaw(t *testing.T) { // C10
	t.Parallel()
	for projection, want := range map[string]sluice.Code{"full": "", "summary": sluice.Unprocessable, "none": sluice.Unprocessable} {
		s := valid()
		s.Policy.Envelope, s.Policy.Projection = sluice.EnvelopeRaw, projection
		require.Equal(t, want, sluice.CodeOf(s.Validate()), projection)
		s.Policy.Envelope = sluice.EnvelopeFact
		require.NoError(t, s.Validate(), projection)
	}
}
