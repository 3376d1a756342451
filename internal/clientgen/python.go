package clientgen

import (
	"fmt"
	"slices"
	"strings"
)

const pyHeader = "# Generated from the OpenAPI document by `make clients`. Do not edit.\n"

// pyTypes returns the file of types. An object is a class. An object with a member name that Python
// reserves is written as a dictionary, in which names are strings.
func (m *model) pyTypes() []byte {
	var b strings.Builder
	b.WriteString(pyHeader + `"""The types of requests and responses: dictionaries, as JSON has them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Bytes: TypeAlias = "bytes | str"
"""A body that is sent as it is."""
`)
	for _, t := range m.sorted() {
		b.WriteString("\n")
		switch {
		case t.alias != nil:
			fmt.Fprintf(&b, "%s: TypeAlias = %s\n", t.name, pyQuoted(t.alias.py))
			if t.doc != "" {
				b.WriteString(pyDoc(t.doc, ""))
			}
		case slices.ContainsFunc(t.fields, func(f field) bool { return pyReserved(f.name) != f.name }):
			pyDict(&b, t)
		default:
			pyClass(&b, t)
		}
	}
	return []byte(b.String())
}

// pyClass writes such an object:
//
//	class Thing(TypedDict):
//	    """A thing."""
//
//	    id: str
//	    labels: NotRequired[dict[str, str]]
func pyClass(b *strings.Builder, t *typ) {
	fmt.Fprintf(b, "\nclass %s(TypedDict):\n", t.name)
	if t.doc != "" {
		b.WriteString(pyDoc(t.doc, "    ") + "\n")
	}
	for _, f := range t.fields {
		fmt.Fprintf(b, "    %s: %s\n", f.name, pyField(f))
	}
	b.WriteString("\n")
}

// pyDict writes an object with a member name that is reserved or not valid in Python.
func pyDict(b *strings.Builder, t *typ) {
	fmt.Fprintf(b, "%s = TypedDict(\n    %q,\n    {\n", t.name, t.name)
	for _, f := range t.fields {
		fmt.Fprintf(b, "        %q: %s,\n", f.name, pyQuoted(pyField(f)))
	}
	b.WriteString("    },\n)\n")
	if t.doc != "" {
		b.WriteString(pyDoc(t.doc, ""))
	}
}

func pyField(f field) string {
	if f.required {
		return f.of.py
	}
	return "NotRequired[" + f.of.py + "]"
}

// pyQuoted returns a string literal. Literal types contain double quotes, and never single ones.
func pyQuoted(text string) string {
	if strings.Contains(text, `"`) {
		return "'" + text + "'"
	}
	return `"` + text + `"`
}

// pyDoc returns a docstring on one line. A quote at the end would end it early, so a space follows.
func pyDoc(text, indent string) string {
	text = strings.ReplaceAll(text, `\`, `\\`)
	if strings.HasSuffix(text, `"`) {
		text += " "
	}
	return indent + `"""` + text + `"""` + "\n"
}

// pyReserved returns a name that Python allows.
func pyReserved(name string) string {
	if !tsIdentifier.MatchString(name) {
		return strings.ReplaceAll(name, "-", "_")
	}
	if slices.Contains([]string{"from", "in", "is", "not", "and", "or", "for", "if", "else", "class", "def", "import", "lambda", "pass", "with", "as", "global"}, name) {
		return name + "_"
	}
	return name
}

// pyOperations returns the file of operations: methods that build a request, and call one of three
// functions of the class that sends it.
func (m *model) pyOperations() []byte {
	var b strings.Builder
	b.WriteString(pyHeader + `"""The operations of the API. The class Sluice sends them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from . import types as t
from .http import Frame, Response


class Operations:
    def _call(
        self, method: str, path: str, names: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, Any], body: Any = None
    ) -> Any:
        raise NotImplementedError

    def _whole(
        self, method: str, path: str, names: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, Any], body: Any = None
    ) -> Response:
        raise NotImplementedError

    def _frames(self, path: str, names: Mapping[str, str], query: Mapping[str, Any]) -> Iterator[Frame[Any]]:
        raise NotImplementedError
`)
	for _, o := range m.ops {
		m.pyOperation(&b, &o)
	}
	return []byte(b.String())
}

// pyOperation writes a method. Path arguments and the body are positional, all others by keyword.
func (m *model) pyOperation(b *strings.Builder, o *op) {
	sent := map[string][]string{}
	signature := []string{"self"}
	named := false
	for _, a := range o.args {
		if a.in == "header" && o.kind == frames {
			continue // the client sets Last-Event-ID
		}
		if a.in != "path" && a.in != "body" && !named {
			signature, named = append(signature, "*"), true
		}
		name := pyReserved(a.name)
		sent[a.in] = append(sent[a.in], fmt.Sprintf("%q: %s", a.wire, name))
		signature = append(signature, name+": "+m.pyArgument(a))
	}
	how, returns := "_call", m.pyQualified(o.returns).py
	switch o.kind {
	case whole:
		how, returns = "_whole", "Response"
	case frames:
		how, returns = "_frames", "Iterator[Frame["+returns+"]]"
	case parsed:
	}
	dict := func(in string) string { return "{" + strings.Join(sent[in], ", ") + "}" }
	fmt.Fprintf(b, "\n    def %s(%s) -> %s:\n%s", snake(o.id), strings.Join(signature, ", "), returns,
		pyDoc(fmt.Sprintf("%s: `%s %s`.", o.summary, o.method, o.path), "        "))
	if o.kind == frames {
		fmt.Fprintf(b, "        return self._frames(%q, %s, %s)\n", o.path, dict("path"), dict("query"))
		return
	}
	body := ""
	if sent["body"] != nil {
		body = ", body"
	}
	fmt.Fprintf(b, "        return self.%s(%q, %q, %s, %s, %s%s)\n", how, o.method, o.path, dict("path"), dict("query"), dict("header"), body)
}

// pyArgument returns the annotation of an argument, with the default None if it is optional.
func (m *model) pyArgument(a arg) string {
	of := m.pyQualified(a.of).py
	switch {
	case a.required:
		return of
	case of == "Any":
		return "Any = None"
	default:
		return of + " | None = None"
	}
}
