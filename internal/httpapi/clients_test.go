package httpapi_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/clientgen"
)

// Issue 18, item 6: the clients in TypeScript and Python have the types and operations of the document.
func TestOpenAPI_ClientsAreGeneratedFromIt(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	files, err := clientgen.Files(document)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(name)))
		require.NoError(t, err)
		if !bytes.Equal(want, got) { // without both texts
			t.Errorf("%s is not that of the document: run `make clients`", name)
		}
	}
}
