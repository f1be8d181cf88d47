package routesfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"payledger/notifier/connector"
)

// maxSecret is the longest secret, in bytes.
const maxSecret = 4 << 10

// secret reads a secret from a file or an environment variable; exactly one of
// them is named. A file's name is relative to the folder of the routes file.
func (r *reading) secret(at value, name, file, variable string) (string, error) {
	fileMember, envMember := name+"_file", name+"_env"
	switch {
	case file != "" && variable != "":
		return "", &connector.SettingError{Field: envMember, Detail: fmt.Sprintf("give %s or %s, not both", fileMember, envMember)}
	case file != "":
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(r.source.File), file)
		}
		secret, err := r.secretFile(at.find(fileMember), file)
		if err != nil {
			return "", &connector.SettingError{Field: fileMember, Detail: err.Error()}
		}
		return secret, nil
	case variable != "":
		secret, err := oneLine(os.Getenv(variable))
		if err != nil {
			return "", &connector.SettingError{Field: envMember, Detail: fmt.Sprintf("the environment variable %s %v", variable, err)}
		}
		return secret, nil
	}
	return "", &connector.SettingError{
		Field:  fileMember,
		Detail: fmt.Sprintf("the secret is missing: name its file with %s or its environment variable with %s", fileMember, envMember),
	}
}

// secretFile reads a secret's file. One that others can write to is refused, one
// that others can read deserves a warning.
func (r *reading) secretFile(at value, name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	case info.Mode().Perm()&0o022 != 0:
		return "", fmt.Errorf("other users can write to %[1]s (mode %#[2]o): run \"chmod go-w %[1]s\"", name, info.Mode().Perm())
	}
	content, err := ReadUpTo(name, maxSecret+3) // with the end of its line
	if err != nil {
		return "", err
	}
	secret, err := oneLine(strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"))
	if err != nil {
		return "", fmt.Errorf("%s %w", name, err)
	}
	if info.Mode().Perm()&0o004 != 0 {
		r.warn(at, "all users of this machine can read %[1]s (mode %#[2]o): run \"chmod o-r %[1]s\"", name, info.Mode().Perm())
	}
	return secret, nil
}

// oneLine checks that a text may be a secret: no error repeats it.
func oneLine(secret string) (string, error) {
	switch {
	case secret == "":
		return "", fmt.Errorf("is empty")
	case len(secret) > maxSecret:
		return "", fmt.Errorf("is longer than %d bytes", maxSecret)
	case strings.Trim(secret, " ") != secret, strings.ContainsFunc(secret, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0xfffd }):
		return "", fmt.Errorf("is not one line of text without blanks around it")
	}
	return secret, nil
}
