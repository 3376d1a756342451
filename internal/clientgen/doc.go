// Package clientgen writes the generated part of the clients in TypeScript and Python: the types
// and the operations of an OpenAPI document. It covers what the document of this server uses, and
// returns an error for anything else.
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
