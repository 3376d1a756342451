package model

import "github.com/sluice-io/sluice/pkg/sluice"

// FirstPage returns at most limit elements of the rest of a list, and the cursor of the last one if
// more follow. Limit 0 is all.
func FirstPage[T any](rest []T, limit int, cursor func(*T) string) (page []T, next string) {
	if limit == 0 || len(rest) <= limit {
		return rest, ""
	}
	return rest[:limit], cursor(&rest[limit-1])
}

// ForeignCursor returns the error for a cursor that a list has not returned, or whose element no
// longer exists.
func ForeignCursor(cursor string) error {
	return sluice.Errorf(sluice.InvalidRequest, "cursor %q does not belong to this list; send next_cursor unchanged, or start over", cursor).With("field", "cursor")
}
