// Command clients writes the generated files of the clients in pkg/typescript and pkg/python. It
// runs in the root of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-io/sluice/internal/clientgen"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	document, err := os.ReadFile("internal/httpapi/openapi.yaml")
	if err != nil {
		return fmt.Errorf("read the OpenAPI document: %w", err)
	}
	files, err := clientgen.Files(document)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.FromSlash(name), text, 0o600); err != nil {
			return fmt.Errorf("write a client: %w", err)
		}
	}
	return nil
}
