package clientgen

import (
	"fmt"
	"regexp"
	"strings"
)

const tsHeader = "// Generated from the OpenAPI document by `make clients`. Do not edit.\n\n"

// tsTypes returns the file of types: an interface for each object, an alias for anything else.
func (m *model) tsTypes() []byte {
	var b strings.Builder
	b.WriteString(tsHeader + "/** A body that is sent as it is. */\nexport type Bytes = string | Uint8Array<ArrayBuffer>\n")
	for _, t := range m.sorted() {
		b.WriteString("\n")
		if t.doc != "" {
			fmt.Fprintf(&b, "/** %s */\n", t.doc)
		}
		if t.alias != nil {
			fmt.Fprintf(&b, "export type %s = %s\n", t.name, t.alias.ts)
			continue
		}
		fmt.Fprintf(&b, "export interface %s {\n", t.name)
		for _, f := range t.fields {
			b.WriteString("  ")
			if f.doc != "" {
				fmt.Fprintf(&b, "/** %s */ ", f.doc)
			}
			b.WriteString(tsMember(f) + "\n")
		}
		if t.more != nil {
			b.WriteString("  [name: string]: unknown\n")
		}
		b.WriteString("}\n")
	}
	return []byte(b.String())
}

// tsOperations returns the file of operations, as pyOperations.
func (m *model) tsOperations() []byte {
	var b strings.Builder
	b.WriteString(tsHeader + `import type { Args, Frame, Options } from './client.js'
import type * as T from './types.js'

/** The operations of the API. The class Sluice sends them. */
export abstract class Operations {
  protected abstract call<R>(method: string, path: string, args: Args, headers: string[], options: Options): Promise<R>
  protected abstract whole(method: string, path: string, args: Args, headers: string[], options: Options): Promise<Response>
  protected abstract frames<F>(path: string, args: Args, options: Options): AsyncGenerator<Frame<F>, void, undefined>
`)
	for _, o := range m.ops {
		m.tsOperation(&b, &o)
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// tsOperation writes a method with one object of arguments, which may be left out if all are
// optional.
func (m *model) tsOperation(b *strings.Builder, o *op) {
	var args, headers []string
	optional := true
	for _, a := range o.args {
		if a.in == "header" {
			if o.kind == frames {
				continue // the client sets Last-Event-ID
			}
			headers = append(headers, "'"+a.wire+"'")
		}
		optional = optional && !a.required
		args = append(args, tsMember(field{name: a.name, of: m.tsQualified(a.of), required: a.required}))
	}
	sent, signature := "args", "args: { "+strings.Join(args, "; ")+" }"
	if optional {
		signature += " = {}"
	}
	if len(args) == 0 {
		sent, signature = "{}", ""
	} else {
		signature += ", "
	}
	result := m.tsQualified(o.returns).ts
	how, returns := "call", "Promise<"+result+">"
	switch o.kind {
	case whole:
		how, returns = "whole", "Promise<Response>"
	case frames:
		how, returns = "frames", "AsyncGenerator<Frame<"+result+">, void, undefined>"
	case parsed:
	}
	fmt.Fprintf(b, "\n  /** %s: `%s %s`. */\n  %s(%soptions: Options = {}): %s {\n", o.summary, o.method, o.path, o.id, signature, returns)
	if o.kind == frames {
		fmt.Fprintf(b, "    return this.frames('%s', %s, options)\n  }\n", o.path, sent)
		return
	}
	fmt.Fprintf(b, "    return this.%s('%s', '%s', %s, [%s], options)\n  }\n", how, o.method, o.path, sent, strings.Join(headers, ", "))
}

var tsIdentifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// tsMember returns a member. An optional one accepts undefined, for callers with
// exactOptionalPropertyTypes.
func tsMember(f field) string {
	name := f.name
	if !tsIdentifier.MatchString(name) {
		name = "'" + name + "'"
	}
	if f.required {
		return name + ": " + f.of.ts
	}
	return name + "?: " + f.of.ts + " | undefined"
}

var word = regexp.MustCompile(`"[^"]*"|\b[A-Z]\w*\b`)

// tsQualified writes T. before the names of types.
func (m *model) tsQualified(e expr) expr {
	e.ts = word.ReplaceAllStringFunc(e.ts, func(name string) string { return m.qualified(name, "T.") })
	return e
}

// pyQualified writes t. before the names of types.
func (m *model) pyQualified(e expr) expr {
	e.py = word.ReplaceAllStringFunc(e.py, func(name string) string { return m.qualified(name, "t.") })
	return e
}

func (m *model) qualified(name, prefix string) string {
	if m.types[name] != nil || name == "Bytes" {
		return prefix + name
	}
	return name
}
