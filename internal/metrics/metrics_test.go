package metrics_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestScrape_ShowsCountersAndGauges(t *testing.T) {
	t.Parallel()
	m := metrics.New(slog.New(slog.DiscardHandler))
	m.WatchDeliveries(func() []model.DeliveryGauges {
		return []model.DeliveryGauges{{Namespace: "acme", Subscription: "erp", InFlight: 1, Buffered: 2, Parked: 3, HeldLanes: 2, Lag: 4500 * time.Millisecond, Breaker: sluice.BreakerHalfOpen, Unopened: true}}
	})
	m.WatchLogs(t.Context(), func(context.Context) ([]sluice.Namespace, error) {
		return []sluice.Namespace{{Name: "acme", Retention: sluice.Retention{MaxBytes: 8}, Usage: &sluice.Usage{Events: 5, Bytes: 6, LastSeq: 7}}}, nil
	})
	m.WatchStorage(t.Context(), func(context.Context) (sluice.Storage, error) {
		return sluice.Storage{UsedBytes: 9, LimitBytes: 10, Damage: []sluice.Damage{{}, {}}}, nil
	})
	sub := &sluice.Subscription{Namespace: "acme", ID: "erp"}
	m.Taken("acme", []sluice.Stored{{}, {Duplicate: true}})
	m.Matched(sub)
	m.Attempted(sub, &sluice.Attempt{Outcome: sluice.Delivered, Duration: sluice.Duration(250 * time.Millisecond)})
	m.Buried(sub, sluice.Exhausted)
	m.Exported("events", 7)
	m.ExportFailed("dead_letters")
	m.Turned(sub, sluice.BreakerOpen)
	m.Turned(sub, sluice.BreakerClosed)
	m.Throttled(sub)
	m.Withheld(sub)
	m.Failing(sub, 70, time.Now())
	m.WatchDue(map[string]func() map[string]int{"event": func() map[string]int { return map[string]int{"acme": 11} }})
	m.Ended("event", "acme", "fired", 20*time.Millisecond)
	m.Ended("appointment", "acme", "missed", time.Hour)

	m.WatchMirrors(func() []model.MirrorGauges {
		return []model.MirrorGauges{{Namespace: "acme", Mirror: "low", Known: true, LagItems: 12, LagSeconds: 1.5, State: sluice.SyncError}, {Namespace: "acme", Mirror: "new"}}
	})
	m.Synced(&sluice.Mirror{Namespace: "acme", ID: "low"}, 3, 0)
	m.Synced(&sluice.Mirror{Namespace: "acme", ID: "low"}, 4, 2)
	m.SyncFailed(&sluice.Mirror{Namespace: "acme", ID: "low"})
	scrape := httptest.NewRecorder()
	m.Handler().ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`sluice_api_events_total{duplicate="false",namespace="acme"} 1`,
		`sluice_api_events_total{duplicate="true",namespace="acme"} 1`,
		`sluice_events_published_total{namespace="acme"} 7`,
		`sluice_log_events{namespace="acme"} 5`,
		`sluice_log_bytes{namespace="acme"} 6`,
		`sluice_log_limit_bytes{namespace="acme"} 8`,
		`sluice_storage_bytes 9`,
		`sluice_due_pending{namespace="acme",what="event"} 11`,
		`sluice_due_total{namespace="acme",outcome="fired",what="event"} 1`,
		`sluice_due_total{namespace="acme",outcome="missed",what="appointment"} 1`,
		`sluice_due_late_seconds_bucket{namespace="acme",what="event",le="0.01"} 0`,
		`sluice_due_late_seconds_bucket{namespace="acme",what="event",le="0.025"} 1`,
		`sluice_storage_limit_bytes 10`,
		`sluice_events_matched_total{namespace="acme",subscription="erp"} 1`,
		`sluice_attempts_total{namespace="acme",outcome="delivered",subscription="erp"} 1`,
		`sluice_dead_letters_total{namespace="acme",reason="exhausted",subscription="erp"} 1`,
		`sluice_attempt_duration_seconds_count{namespace="acme"} 1`,
		`sluice_attempt_seconds_total{namespace="acme",subscription="erp"} 0.25`,
		`sluice_attempts_in_flight{namespace="acme",subscription="erp"} 1`,
		`sluice_deliveries_buffered{namespace="acme",subscription="erp"} 2`,
		`sluice_lanes_parked{namespace="acme",subscription="erp"} 3`,
		`sluice_lanes_held{namespace="acme",subscription="erp"} 2`,
		`sluice_exported_total{what="events"} 7`,
		`sluice_export_failures_total{what="dead_letters"} 1`,
		`sluice_lag_seconds{namespace="acme",subscription="erp"} 4.5`,
		`sluice_breaker_state{namespace="acme",subscription="erp"} 2`,
		`sluice_storage_damage 2`,
		`sluice_source_unopened{namespace="acme",subscription="erp"} 1`,
		`sluice_mirror_state{namespace="acme",subscription="low"} 2`,
		`sluice_mirror_state{namespace="acme",subscription="new"} 0`,
		`sluice_mirror_lag_items{namespace="acme",subscription="low"} 12`,
		`sluice_mirror_lag_seconds{namespace="acme",subscription="low"} 1.5`,
		`sluice_mirror_entries_total{namespace="acme",subscription="low"} 7`,
		`sluice_mirror_gaps_total{namespace="acme",subscription="low"} 2`,
		`sluice_mirror_sync_failures_total{namespace="acme",subscription="low"} 1`,
		`sluice_breaker_openings_total{namespace="acme",subscription="erp"} 1`,
		`sluice_throttled_total{namespace="acme",subscription="erp"} 1`,
		`sluice_gate_withheld_total{namespace="acme",subscription="erp"} 1`,
		`sluice_failing_alerts_total{namespace="acme",percent="70",subscription="erp"} 1`,
	} {
		require.Contains(t, scrape.Body.String(), line+"\n")
	}
	require.NotContains(t, scrape.Body.String(), `sluice_mirror_lag_seconds{namespace="acme",subscription="new"}`, "not synced yet")
}

// A subscription that is deleted leaves no figure behind, and one of its id elsewhere begins anew.
func TestMetrics_DeletedSubscriptionIsForgotten(t *testing.T) {
	t.Parallel()
	m := metrics.New(slog.New(slog.DiscardHandler))
	scrape := func() string {
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return answer.Body.String()
	}
	sub := &sluice.Subscription{Namespace: "acme", ID: "erp"}
	for range 2 {
		m.Matched(sub)
		m.Woken(sub)
		m.Attempted(sub, &sluice.Attempt{Outcome: sluice.Delivered})
		m.Attempted(sub, &sluice.Attempt{Outcome: sluice.Failed})
		m.CalledBack(sub, "")
	}
	require.Contains(t, scrape(), `sluice_attempts_total{namespace="acme",outcome="failed",subscription="erp"} 2`)
	require.Contains(t, scrape(), `sluice_wake_callbacks_total{code="OK",namespace="acme",subscription="erp"} 2`)
	m.Matched(&sluice.Subscription{Namespace: "other", ID: "erp"})
	require.Contains(t, scrape(), `sluice_events_matched_total{namespace="other",subscription="erp"} 1`)
	require.NotContains(t, scrape(), `namespace="acme",subscription`)
	m.Forget("erp")
	require.NotContains(t, scrape(), "erp")
}

// Attempts of a deleted subscription that end late do not count, and a later one with its id begins anew.
func TestForget_HoldsForAttemptsThatEndLater(t *testing.T) {
	t.Parallel()
	m := metrics.New(slog.New(slog.DiscardHandler))
	present := map[string]time.Time{"acme/erp": time.Unix(1, 0)}
	m.Know(func(namespace, id string) (at time.Time, exists bool) {
		at, exists = present[namespace+"/"+id]
		return at, exists
	})
	scrape := func() string {
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return answer.Body.String()
	}
	old := &sluice.Subscription{Namespace: "acme", ID: "erp", Lifecycle: sluice.Lifecycle{CreatedAt: time.Unix(1, 0)}}
	later := &sluice.Subscription{Namespace: "acme", ID: "erp", Lifecycle: sluice.Lifecycle{CreatedAt: time.Unix(2, 0)}}
	m.Matched(old)
	delete(present, "acme/erp")
	m.Forget("erp")
	m.Attempted(old, &sluice.Attempt{Outcome: sluice.Delivered})
	require.NotContains(t, scrape(), "erp")
	present["acme/erp"] = time.Unix(2, 0)
	m.Attempted(old, &sluice.Attempt{Outcome: sluice.Delivered})
	require.NotContains(t, scrape(), "erp")
	m.Attempted(later, &sluice.Attempt{Outcome: sluice.Failed})
	m.Attempted(old, &sluice.Attempt{Outcome: sluice.Delivered})
	m.Attempted(later, &sluice.Attempt{Outcome: sluice.Failed})
	require.Contains(t, scrape(), `sluice_attempts_total{namespace="acme",outcome="failed",subscription="erp"} 2`)
	require.NotContains(t, scrape(), `outcome="delivered"`)
	m.Synced(&sluice.Mirror{Namespace: "acme", ID: "low"}, 3, 0)
	require.Contains(t, scrape(), `sluice_mirror_entries_total{namespace="acme",subscription="low"} 3`)
}
