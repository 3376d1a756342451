// Package clientgen generates parts of the clients in TypeScript and Python: the types and the
// operations of an OpenAPI document. It supports the features that this server's document uses, and
// returns an error for any other.
package clientgen

// Files returns the generated files of both clients, by their names in this repository.
func Files(document []byte) (map[string][]byte, error) {
	m, err := newModel(document)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"pkg/typescript/src/types.ts":         m.tsTypes(),
		"pkg/typescript/src/operations.ts":    m.tsOperations(),
		"pkg/python/src/sluice/types.py":      m.pyTypes(),
		"pkg/python/src/sluice/operations.py": m.pyOperations(),
	}, nil
}
