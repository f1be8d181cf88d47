package adapter

import (
	"errors"
	"net/url"

	"payledger/notifier/connector"
	"payledger/notifier/connector/client"
)

// settings is the connector's object in the routes file.
type settings struct {
	URL                string `json:"url"`
	SecretFile         string `json:"secret_file"`
	SecretEnv          string `json:"secret_env"`
	PreviousSecretFile string `json:"previous_secret_file"`
	PreviousSecretEnv  string `json:"previous_secret_env"`
}

// Type is the row of routesfile.Types.
func Type() connector.Type {
	return connector.Type{Name: "http", Private: true, Open: open, Sample: `{"url":"http://127.0.0.1:8090","secret_file":"adapter.secret"}`}
}

func open(e connector.Env, _ string, object []byte) (connector.Connector, error) {
	var s settings
	if err := connector.DecodeSettings(object, &s); err != nil {
		return nil, err
	}
	if err := CheckURL(s.URL); err != nil {
		return nil, &connector.SettingError{Field: "url", Detail: err.Error()}
	}
	keys, err := s.keys(e)
	if err != nil {
		return nil, err
	}
	return New(Config{URL: s.URL, Keys: keys, HTTP: e.HTTP, Now: e.Now}), nil
}

func (s settings) keys(e connector.Env) (client.Keys, error) {
	keys, err := key(e, "secret", s.SecretFile, s.SecretEnv)
	if err != nil || s.PreviousSecretFile+s.PreviousSecretEnv == "" {
		return keys, err
	}
	previous, err := key(e, "previous_secret", s.PreviousSecretFile, s.PreviousSecretEnv)
	return append(keys, previous...), err
}

func key(e connector.Env, name, file, env string) (client.Keys, error) {
	secret, err := e.Secret(name, file, env)
	if err != nil {
		return nil, err
	}
	keys, err := client.NewKeys(secret)
	if err != nil {
		member := name + "_file"
		if file == "" {
			member = name + "_env"
		}
		return nil, &connector.SettingError{Field: member, Detail: err.Error()}
	}
	return keys, nil
}

// CheckURL takes https, and http where the name or address is not public: the calls are signed, but
// the customer's language and receipt are in them.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an absolute URL, as https://adapter.example or http://127.0.0.1:8090")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("want a URL without password, query and fragment")
	case u.Scheme == "http" && connector.PublicHost(u.Hostname()):
		return errors.New("want https; http only for an adapter on this machine or in a private network")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("want https, or http for an adapter on this machine or in a private network")
	}
	return nil
}
