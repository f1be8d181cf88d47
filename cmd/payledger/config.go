package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json"
)

// configFile is a JSON object from flag names to values. Names may be spelled
// with - or _. A name that is no flag of any command is an error, so that a
// misspelt setting does not go unnoticed.
type configFile string

// BeforeResolve reads the file before the flags that were not given on the
// command line are looked up. A flag that no variable sets is not set by the file either.
func (f configFile) BeforeResolve(k *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	name := string(ctx.FlagValue(trace.Flag).(configFile)) //nolint:forcetypeassert // kong parsed it as one
	b, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	values := map[string]any{}
	if err := json.Unmarshal(b, &values); err != nil {
		return fmt.Errorf("--config %s: want one JSON object: %w", name, err)
	}
	settings := make(map[string]any, len(values))
	known := make(map[string]bool)
	for _, command := range k.Model.Leaves(false) {
		for _, f := range slices.Concat(command.AllFlags(false)...) {
			known[f.Name] = true
		}
	}
	for key, v := range values {
		flag := strings.ReplaceAll(key, "_", "-")
		if !known[flag] {
			return fmt.Errorf("--config %s: %q is not a flag of any command", name, key)
		}
		settings[flag] = v
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if len(flag.Envs) == 0 {
			return nil, nil
		}
		for _, env := range flag.Envs {
			if _, set := os.LookupEnv(env); set {
				return nil, nil // the environment comes before the file
			}
		}
		v := settings[flag.Name]
		if number, ok := v.(float64); ok {
			return strconv.FormatFloat(number, 'f', -1, 64), nil // whole: no flag takes 5e+08
		}
		return v, nil
	}))
	return nil
}
