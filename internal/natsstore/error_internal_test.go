package natsstore

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A store that is full says so at once: a write that JetStream refuses while it is full is not repeated for twenty seconds.
func TestIsTransient_FullStoreIsNot(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bool{codeInsufficientResources: false, codeStoreFailed: false, codeNoPeers: true, codeTooManyBatches: true} {
		require.Equal(t, want, isTransient(&jetstream.APIError{Code: 503, ErrorCode: jetstream.ErrorCode(code)}), code)
	}
	require.False(t, isTransient(&jetstream.APIError{Code: 400, ErrorCode: codeAccountResources}))
}

// JetStream has one code for a log that is full by its own limit and for a store that cannot write: the first is the
// namespace's to mend, and the second the operator's. While logs are bound because the store is full, the first is the second.
func TestCrowded_TellsAFullStoreFromAFullLog(t *testing.T) {
	t.Parallel()
	refused := func(description string) error {
		return &jetstream.APIError{Code: 503, ErrorCode: codeStoreFailed, Description: description}
	}
	for _, c := range []struct {
		level       sluice.StorageLevel
		description string
		want        sluice.Code
		reason      any
	}{
		{sluice.StorageAmple, "maximum bytes exceeded", sluice.QuotaExceeded, nil},
		{sluice.StorageTight, "maximum bytes exceeded", sluice.Unavailable, sluice.ReasonStorage},
		{sluice.StorageScarce, "maximum bytes exceeded", sluice.Unavailable, sluice.ReasonStorage},
		{sluice.StorageTight, "maximum messages exceeded", sluice.QuotaExceeded, nil},
		{sluice.StorageTight, "maximum messages per subject exceeded", sluice.QuotaExceeded, nil},
		{sluice.StorageAmple, "no space left on device", sluice.Unavailable, sluice.ReasonStorage},
	} {
		s := &Store{}
		s.level.Store(int32(c.level))
		err := StoreError(t.Context(), s.crowded(refused(c.description)))
		require.Equal(t, c.want, sluice.CodeOf(err), "%+v", c)
		e := &sluice.Error{}
		require.ErrorAs(t, err, &e)
		require.Equal(t, c.reason, e.Details["reason"], "%+v", c)
		require.Equal(t, fullRetry, e.Details["retry_after"], "%+v", c)
	}
}

func TestConnect_RefusesServersWithoutAtomicBatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		give string
		ok   bool
	}{
		{"2.12.0", true},
		{"2.15.2", true},
		{"3.0.0-beta.1", true},
		{"2.11.9", false},
		{"1.99.0", false},
		{"", false},
		{"dev", false},
	}
	for _, test := range tests {
		t.Run(test.give, func(t *testing.T) {
			t.Parallel()
			err := checkVersion(test.give)
			if test.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "2.12 or newer")
		})
	}
}
