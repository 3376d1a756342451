package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// decode applies the settings of a file. An error names the invalid setting and its valid values,
// in the terms of the file.
func (c *Config) decode(data []byte) error {
	encoded, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "yaml: ")
		return errors.New("not YAML: " + strings.Join(strings.Fields(strings.TrimPrefix(text, "unmarshal errors:")), " "))
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	var file any
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("not YAML: %w", err)
	}
	if file == nil {
		return nil // the file is empty
	}
	if err := checkValue("", file, reflect.TypeFor[Config]()); err != nil {
		return err
	}
	return json.Unmarshal(encoded, c)
}

// checkValue returns an error unless the value is valid for the setting, or the group of settings.
func checkValue(name string, value any, kind reflect.Type) error {
	if value == nil {
		return nil // equivalent to an absent setting
	}
	if kind.Kind() == reflect.Struct {
		return checkGroup(name, value, kind)
	}
	if list, ok := value.([]any); ok && kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Struct {
		return checkGroups(name, list, kind.Elem())
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	if err := json.Unmarshal(encoded, reflect.New(kind).Interface()); err != nil {
		if isSecret(name) {
			encoded = []byte("what it is set to")
		}
		return fmt.Errorf("setting %s: %w", name, wrongValue(string(encoded), kind, err))
	}
	return nil
}

// isSecret reports whether a setting's value must not be shown.
func isSecret(name string) bool {
	return slices.Contains([]string{"secrets.key", "nats.password", "nats.token", "nats.users.password"}, element.ReplaceAllString(name, ""))
}

// element is the index of an element in a setting's name.
var element = regexp.MustCompile(`\[\d+\]`)

// join returns the name of a setting in a group; a group without a name is the whole configuration.
func join(group, name string) string { return strings.TrimPrefix(group+"."+name, ".") }

// checkGroups returns an error unless each element of the list is a valid group of settings.
func checkGroups(name string, list []any, kind reflect.Type) error {
	var errs []error
	for i, value := range list {
		errs = append(errs, checkGroup(fmt.Sprintf("%s[%d]", name, i), value, kind))
	}
	return errors.Join(errs...)
}

func checkGroup(name string, value any, kind reflect.Type) error {
	known := map[string]reflect.Type{}
	for field := range kind.Fields() {
		known[field.Tag.Get("json")] = field.Type
	}
	names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
	group, ok := value.(map[string]any)
	if !ok && name == "" {
		return fmt.Errorf("it must be a group of settings: %s", names)
	}
	if !ok {
		return fmt.Errorf("setting %s is a group of settings: %s", name, names)
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(group)) {
		place := join(name, key)
		if inner, ok := known[key]; ok {
			errs = append(errs, checkValue(place, group[key], inner))
		} else {
			errs = append(errs, fmt.Errorf("setting %s is unknown; valid settings here are %s", place, names))
		}
	}
	return errors.Join(errs...)
}

// wrongValue returns the error for an invalid value, with the valid values of the setting.
func wrongValue(value string, kind reflect.Type, err error) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e
	}
	if kind == reflect.TypeFor[[]NATSUser]() {
		return fmt.Errorf("it is not a list such as %s", exampleUsers) // the value holds passwords
	}
	var want string
	switch kind.Kind() { //nolint:exhaustive // no setting is of another kind
	case reflect.Bool:
		want = "true or false"
	case reflect.Int, reflect.Int64:
		want = "a whole number below 2^63, such as 8388608"
	case reflect.Slice:
		want = `a list such as ["a", "b"]`
	default:
		want = "a text; put it in quotes"
	}
	return fmt.Errorf("%s is not %s", value, want)
}
