package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Settings returns every setting with its default, in the order of Config, without secrets.
func (c Config) Settings() ([]sluice.Setting, error) {
	return settings("", reflect.ValueOf(c), reflect.ValueOf(Default()))
}

// settings returns the settings of a group. Its name is empty for the whole configuration.
func settings(name string, group, defaults reflect.Value) ([]sluice.Setting, error) {
	var all []sluice.Setting
	for i := range group.NumField() {
		inner := join(name, group.Type().Field(i).Tag.Get("json"))
		if group.Field(i).Kind() == reflect.Struct {
			more, err := settings(inner, group.Field(i), defaults.Field(i))
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
			continue
		}
		one := sluice.Setting{Name: inner, Changed: !reflect.DeepEqual(group.Field(i).Interface(), defaults.Field(i).Interface())}
		var err error
		if one.Value, err = shown(inner, group.Field(i)); err != nil {
			return nil, err
		}
		if one.Default, err = shown(inner, defaults.Field(i)); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// shown returns a value as JSON decodes it, without secrets.
func shown(name string, value reflect.Value) (any, error) {
	encoded, err := json.Marshal(value.Interface())
	if err != nil {
		return nil, fmt.Errorf("setting %s: %w", name, err)
	}
	var decoded any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return nil, fmt.Errorf("setting %s: %w", name, err)
	}
	return hide(name, decoded), nil
}

// login is the part of a URL that may hold a password or a token.
var login = regexp.MustCompile(`://[^/?#\s]*@`)

// hide replaces the secrets in a value.
func hide(name string, value any) any {
	switch v := value.(type) {
	case string:
		if isSecret(name) && v != "" {
			return sluice.HiddenSetting
		}
		return login.ReplaceAllString(v, "://"+sluice.HiddenSetting+"@")
	case []any:
		for i := range v {
			v[i] = hide(name, v[i])
		}
		return v
	case map[string]any:
		for key := range v {
			v[key] = hide(join(name, key), v[key])
		}
		return v
	case nil:
		return []any{} // an empty list
	}
	return value
}
