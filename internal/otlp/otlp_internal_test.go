package otlp

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func variables(all map[string]string) func(string) string {
	return func(name string) string { return all[name] }
}

// A setting goes before the variable of its signal, and that before the one of all signals.
func TestDestinations_SettingsThenVariables(t *testing.T) {
	t.Parallel()
	const url = "http://o:4318"
	on, off := destination{on: true}, destination{}
	tests := []struct {
		name string
		set  Options
		env  map[string]string
		want destined
	}{
		{"nothing", Options{}, nil, destined{}},
		{"settings", Options{Traces: url, Metrics: url + "/", Logs: url + "/base"}, nil, destined{
			destination{true, url + "/v1/traces"}, destination{true, url + "/v1/metrics"}, destination{true, url + "/base/v1/logs"},
		}},
		{"a variable for all", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url}, destined{on, on, on}},
		{"a variable for one", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": url + "/m"}, destined{off, on, off}},
		{"no logs", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_LOGS_EXPORTER": "none"}, destined{on, on, off}},
		{"metrics elsewhere", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRICS_EXPORTER": "prometheus"}, destined{on, off, on}},
		{"disabled", Options{}, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SDK_DISABLED": "true"}, destined{}},
		{"a setting and none", Options{Logs: url}, map[string]string{"OTEL_LOGS_EXPORTER": "none"}, destined{off, off, destination{true, url + "/v1/logs"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.set.Getenv = variables(tt.env)
			got, err := destinations(tt.set)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestDestinations_RefusesUnusableVariables(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":        {"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://o:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "grpc://o"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://o:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
	} {
		_, err := New(t.Context(), Options{Getenv: variables(env), Log: slog.DiscardHandler})
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
		require.ErrorContains(t, err, name)
	}
}

// A trace that begins here is sampled by the ratio, one that came with an event as its sender did.
func TestSampling_FollowsTheParent(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(collector.Close)
	for ratio, want := range map[float64]bool{0: false, 1: true} {
		e, err := New(t.Context(), Options{Traces: collector.URL, SampleRatio: ratio, Getenv: variables(nil), Log: slog.DiscardHandler})
		require.NoError(t, err)
		tracer := e.TracerProvider().Tracer("test")
		_, root := tracer.Start(t.Context(), "root")
		require.Equal(t, want, root.SpanContext().IsSampled(), "%v", ratio)
		for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
			parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true})
			_, child := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), parent), "child")
			require.Equal(t, parent.IsSampled(), child.SpanContext().IsSampled(), "%v %v", ratio, flags)
		}
		require.Nil(t, e.Handler(slog.DiscardHandler), "the log has no collector")
		e.Close(t.Context())
	}
}

// A collector that is away costs a line a minute, and the log alone has it.
func TestComplaints_AreOneAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := complaints{log: slog.New(slog.NewTextHandler(&out, nil))}
		for range 10 {
			c.add(errors.New("refused"))
		}
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
		<-time.After(complainEvery)
		c.add(errors.New("refused"))
		require.Contains(t, out.String(), "more=9\n")
	})
}

// A record that the log does not want costs nothing.
func TestHandler_HasTheLevelOfTheLog(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(collector.Close)
	log := slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelWarn})
	e, err := New(t.Context(), Options{Logs: collector.URL, Getenv: variables(nil), Log: log})
	require.NoError(t, err)
	copied := e.Handler(log)
	for _, h := range []slog.Handler{copied, copied.WithAttrs([]slog.Attr{slog.String("a", "b")}), copied.WithGroup("g")} {
		require.False(t, h.Enabled(t.Context(), slog.LevelInfo))
		require.True(t, h.Enabled(t.Context(), slog.LevelWarn))
	}
	require.Nil(t, e.TracerProvider())
	e.Close(t.Context())
}
