// Package strictjson decodes JSON strictly: it refuses texts that parsers interpret differently or
// that are expensive to parse, and decodes only known fields. Its errors name the field.
package strictjson
