package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagValue collects what a flag was given. What it means is decided where
// all sources of a setting are known.
type flagValue struct {
	setting setting
	texts   []string
}

// String is empty: no flag of the bridge shows its default by itself.
func (f *flagValue) String() string { return "" }

// Type is the word for the flag's value.
func (f *flagValue) Type() string { return "value" }

// Set takes one more value, or replaces the one of a setting that takes one.
func (f *flagValue) Set(text string) error {
	switch f.setting.kind {
	case globs:
		f.texts = append(f.texts, f.setting.split(text)...)
	case lines:
		f.texts = append(f.texts, text)
	default:
		f.texts = []string{text}
	}
	return nil
}

// addBridgeFlags gives cmd a flag for each setting.
func addBridgeFlags(cmd *cobra.Command) {
	for _, s := range settings() {
		addSettingFlag(cmd, s)
	}
}

func addSettingFlag(cmd *cobra.Command, s setting) { addSetting(cmd.Flags(), s) }

func addSetting(flags *pflag.FlagSet, s setting) {
	flag := flags.VarPF(&flagValue{setting: s}, s.name, "", "")
	if s.kind == toggle {
		flag.NoOptDefVal = "true"
	}
}

// bridgeFlags returns the flags that were given.
func bridgeFlags(cmd *cobra.Command) layer {
	l := layer{}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if f, ok := flag.Value.(*flagValue); ok {
			l[f.setting.name] = value{texts: f.texts, from: fromFlag, where: "--" + f.setting.name}
		}
	})
	return l
}

// flagError says in one line what is wrong with the flags of cmd. A value is
// never repeated: it may be a secret that landed in the wrong place.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		return usagef("--%s needs a value", missing.GetSpecifiedName())
	case errors.As(err, &invalid):
		return usagef("--%s: wants %s", invalid.GetFlag().Name, wanted(invalid.GetFlag()))
	default:
		return usagef("%v", err)
	}
}

func wanted(flag *pflag.Flag) string {
	switch flag.Value.Type() {
	case "bool":
		return "true or false"
	case "int":
		return "a whole number"
	default:
		return "another value"
	}
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	var known []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { known = append(known, "--"+flag.Name) })
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		return unknownLetters(letters, known)
	}
	return usagef("unknown flag --%s%s", err.GetSpecifiedName(), didYouMean("--"+err.GetSpecifiedName(), known))
}

// unknownLetters is about what follows a single hyphen. Only the first letter
// is repeated: in -HName:value the rest is no name.
func unknownLetters(letters string, known []string) error {
	name, _, _ := strings.Cut(letters, "=")
	meant := []string{"--" + name, "--h" + name} // -header begins with -h, which is known
	if letters[0] == 'H' {
		meant = append(meant, "--header") // as in curl
	}
	for _, flag := range meant {
		if slices.Contains(known, flag) {
			return usagef("unknown flag with one hyphen; did you mean %s?", flag)
		}
	}
	return usagef("unknown flag -%.1s", letters)
}
