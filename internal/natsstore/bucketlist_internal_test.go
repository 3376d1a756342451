package natsstore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that changes while its bucket is listed is listed once, with its last value; one that is deleted is not (S1-110).
func TestList_HasTheLastEntryOfAKey(t *testing.T) {
	t.Parallel()
	read := []Entry[int]{
		{Key: "a", Value: 1, Revision: 1},
		{Key: "b", Value: 1, Revision: 2},
		{Key: "gone", Value: 1, Revision: 3},
		{Key: "a", Value: 2, Revision: 4},
		{Key: "gone", Change: Removed, Revision: 5},
		{Key: "again", Change: Removed, Revision: 6},
		{Key: "again", Value: 3, Revision: 7},
	}
	require.Equal(t, []Entry[int]{{Key: "b", Value: 1, Revision: 2}, {Key: "a", Value: 2, Revision: 4}, {Key: "again", Value: 3, Revision: 7}}, lastEntries(read))
	require.Nil(t, lastEntries[int](nil))
}
