package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/caarlos0/env/v11"
)

const prefix = "SLUICE_"

// Load returns the defaults, overridden by the JSON or YAML file at path (none if path is empty)
// and then by the non-empty variables of environ ("KEY=value", as os.Environ returns them). An
// unknown name in the file is an error. An unknown variable is not, because orchestrators set
// SLUICE_* variables of their own. Load does not call Check, so that flags can still correct
// settings.
func Load(path string, environ []string) (Config, error) {
	c := Default()
	if path != "" {
		data, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			return Config{}, fmt.Errorf("read configuration: %w", err)
		}
		if err := c.decode(data); err != nil {
			return Config{}, fmt.Errorf("configuration %s: %w", path, err)
		}
	}
	vars := env.ToMap(environ)
	if err := c.applyVariables(vars); err != nil {
		return Config{}, err
	}
	if c.Data == "" {
		c.Data = defaultData(vars)
	}
	return c, nil
}

// applyVariables applies the variables one at a time, so that an error can name the variable.
func (c *Config) applyVariables(vars map[string]string) error {
	var errs []error
	for key, value := range vars {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		opts := env.Options{Prefix: prefix, Environment: map[string]string{key: value}, FuncMap: parsers()}
		err := env.ParseWithOptions(c, opts)
		if parse, ok := errors.AsType[env.ParseError](err); ok {
			err = wrongValue(strconv.Quote(value), parse.Type, parse.Err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("variable %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// parsers parse settings whose value in a variable is JSON.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{reflect.TypeFor[[]NATSUser](): parseUsers}
}

func defaultData(vars map[string]string) string {
	if dir := vars["XDG_DATA_HOME"]; dir != "" {
		return filepath.Join(dir, "sluice")
	}
	if home := vars["HOME"]; home != "" {
		return filepath.Join(home, ".local", "share", "sluice")
	}
	return ""
}
