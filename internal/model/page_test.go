package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestFirstPage_HasACursorIfMoreFollow(t *testing.T) {
	t.Parallel()
	itself := func(s *string) string { return *s }
	for _, tt := range []struct {
		limit int
		want  []string
		next  string
	}{
		{0, []string{"a", "b", "c"}, ""}, {1, []string{"a"}, "a"}, {2, []string{"a", "b"}, "b"}, {3, []string{"a", "b", "c"}, ""}, {4, []string{"a", "b", "c"}, ""},
	} {
		page, next := model.FirstPage([]string{"a", "b", "c"}, tt.limit, itself)
		require.Equal(t, tt.want, page)
		require.Equal(t, tt.next, next)
	}
}

func TestForeignCursor_NamesTheField(t *testing.T) {
	t.Parallel()
	err := model.ForeignCursor("x")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	require.ErrorContains(t, err, `"x" does not belong to this list`)
	var e *sluice.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "cursor", e.Details["field"])
}
