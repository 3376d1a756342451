// Package strictjson reads JSON that has one meaning: it refuses texts that parsers interpret differently
// or that are expensive to parse, and decodes only known fields, with errors that name the field.
package strictjson
