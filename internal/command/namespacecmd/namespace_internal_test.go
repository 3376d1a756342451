package namespacecmd

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// An edit replaces the settings, so it has to say all of them again.
func TestNamespace_EditKeepsOtherSettings(t *testing.T) {
	t.Parallel()
	ns := sluice.Namespace{
		Description: "d", Retention: sluice.Retention{MaxAge: 1, MaxBytes: 2}, DedupWindow: 3,
		Quota: sluice.Quota{Burst: 4}, Catalogue: sluice.CatalogueStrict, Revision: 5,
	}
	label := "SECRET/legal"
	spec, err := (&nsEditCmd{Label: &label}).spec(ns)
	require.NoError(t, err)
	value := reflect.ValueOf(spec)
	for i := range value.NumField() {
		require.False(t, value.Field(i).IsZero(), "%s is lost", value.Type().Field(i).Name)
	}
	require.Equal(t, ns.Retention, spec.Retention)
	require.Equal(t, &sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"legal"}}, spec.Label)
}
