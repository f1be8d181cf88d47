package connector

import (
	"errors"
	"net/netip"
	"net/url"

	"github.com/go-json-experiment/json"
)

// DecodeSettings reads a connector's object of the routes file into a struct.
// Members that the struct does not have are refused. The error is a
// *SettingError, which names the member and never holds its value.
func DecodeSettings(object []byte, into any) error {
	err := json.Unmarshal(object, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok || semantic.JSONPointer == "":
		return &SettingError{Detail: "want a JSON object"}
	case errors.Is(err, json.ErrUnknownName):
		return &SettingError{Field: semantic.JSONPointer.LastToken(), Detail: "there is no such setting"}
	}
	return &SettingError{Field: semantic.JSONPointer.LastToken(), Detail: "the value is of the wrong type"}
}

// OnLoopback reports whether a URL has a loopback address, not a name, and plain HTTP: a name could
// resolve to another machine. Tests have their providers there.
func OnLoopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}
