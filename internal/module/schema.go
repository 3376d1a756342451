package module

import _ "embed" // the schema

//go:embed manifest.schema.json
var schema []byte

// Schema returns the JSON Schema of a manifest (draft 2020-12). ParseManifest checks more than the
// schema can express. The caller must not change the result.
func Schema() []byte { return schema }
