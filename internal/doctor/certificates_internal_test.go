package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestCertificates_ThatExpireSoonAreAWarning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	with := func(id string, days int, state sluice.State) sluice.Subscription {
		end := now.AddDate(0, 0, days)
		return sluice.Subscription{ID: id, Lifecycle: sluice.Lifecycle{State: state}, Endpoint: sluice.Endpoint{TLS: &sluice.EndpointTLS{NotAfter: &end}}}
	}
	e := &examination{}
	e.noteCertificates([]sluice.Subscription{{ID: "none"}, {ID: "ca", Endpoint: sluice.Endpoint{TLS: &sluice.EndpointTLS{CA: "x"}}}}, now)
	require.Empty(t, e.findings, "there is none")
	far := with("far", 31, sluice.Active)
	e.noteCertificates([]sluice.Subscription{far, with("over", -1, sluice.Cancelled)}, now)
	e.noteCertificates([]sluice.Subscription{far, with("soon", 29, sluice.Paused), with("over", -1, sluice.Active)}, now)
	require.Len(t, e.findings, 2)
	require.Equal(t, finding{"certificates", "ok", "none of 1 client certificates of endpoints expires within 30 days"}, e.findings[0])
	require.Equal(t, "warn", e.findings[1].Result)
	require.Contains(t, e.findings[1].Detail, "2 of 3 client certificates")
	require.Contains(t, e.findings[1].Detail, "over at 2025-12-31")
	require.Contains(t, e.findings[1].Detail, "soon at 2026-01-30")
}
