package reference

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/sluice-io/sluice/internal/clientgen"
)

// fillCalls adds the calls of the clients in TypeScript and Python, if they have the operation.
// Optional parameters are left out.
func (d *document) fillCalls(s *shownOperation, parameters []parameter, success response) {
	if !clientgen.HasOperation(s.ID) {
		return
	}
	var ts, py []string
	for _, p := range parameters {
		if p.In != "path" && !p.Required {
			continue
		}
		value, err := json.Marshal(d.argument(p))
		if err != nil {
			continue // no value of JSON
		}
		ts = append(ts, clientgen.Argument(p.Name)+": "+string(value))
		py = append(py, clientgen.PythonName(p.Name)+"="+pythonValue(string(value)))
	}
	if s.BodyExample != "" {
		ts = append(ts, "body: "+s.BodyExample)
		py = append(py, "body="+pythonValue(s.BodyExample))
	}
	s.TypeScript = "sluice." + s.ID + "("
	if len(ts) > 0 {
		s.TypeScript += "{ " + strings.Join(ts, ", ") + " }"
	}
	s.TypeScript += ")"
	s.Python = "sluice." + clientgen.PythonName(s.ID) + "(" + strings.Join(py, ", ") + ")"
	if _, ok := success.Content["text/event-stream"]; ok && len(success.Content) == 1 {
		s.TypeScript = "for await (const { data } of " + s.TypeScript + ") console.log(data)"
		s.Python = "for place, data in " + s.Python + ":\n    print(data)"
		return
	}
	s.TypeScript = "await " + s.TypeScript
}

// argument returns an example of a parameter, or its name.
func (d *document) argument(p parameter) any {
	if p.Name == "path" {
		return "/orders/42"
	}
	value := d.example(p.Schema, 0)
	if value == nil || value == "…" {
		return strings.ToUpper(p.Name)
	}
	return value
}

var jsonWord = regexp.MustCompile(`"(?:\\.|[^"\\])*"|\b(?:true|false|null)\b`)

// pythonValue writes JSON as Python does.
func pythonValue(text string) string {
	names := map[string]string{"true": "True", "false": "False", "null": "None"}
	return jsonWord.ReplaceAllStringFunc(text, func(word string) string {
		if name := names[word]; name != "" {
			return name
		}
		return word
	})
}
