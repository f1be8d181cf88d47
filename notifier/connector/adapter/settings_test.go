package adapter_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/adapter/adaptertest"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"good": adaptertest.Secret, "old": otherSecret, "short": "whsec_c2hvcnQ=", "bare": "secret", "bad": "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!"}
	env := connector.Env{HTTP: http.DefaultClient, Now: time.Now, Secret: func(name, file, env string) (string, error) {
		if s, ok := secrets[file+env]; ok {
			return s, nil
		}
		return "", &connector.SettingError{Field: name + "_file", Detail: "cannot be read"}
	}}
	for object, field := range map[string]string{
		adapterSample("good"): "",
		`{"url":"https://adapter.example/x/","secret_env":"good","previous_secret_file":"old"}`: "",
		`{"url":"http://10.0.0.7:80","secret_env":"good"}`:                                      "",
		`{"url":"http://adapter:8090","secret_env":"good"}`:                                     "",
		`{"url":"http://[::1]:8090","secret_env":"good"}`:                                       "",
		`{"url":"http://adapter.example.com","secret_env":"good"}`:                              "url",
		`{"url":"http://93.184.215.14","secret_env":"good"}`:                                    "url",
		`{"url":"https://user:pw@adapter.example","secret_env":"good"}`:                         "url",
		`{"url":"https://adapter.example/?a=1","secret_env":"good"}`:                            "url",
		`{"url":"ftp://127.0.0.1","secret_env":"good"}`:                                         "url",
		`{"url":"/calls","secret_env":"good"}`:                                                  "url",
		`{"url":7,"secret_env":"good"}`:                                                         "url",
		`{"secret_env":"good"}`:                                                                 "url",
		`{"url":"https://adapter.example","secret":"whsec_x"}`:                                  "secret",
		`{"url":"https://adapter.example"}`:                                                     "secret_file",
		`{"url":"https://adapter.example","secret_file":"short"}`:                               "secret_file",
		`{"url":"https://adapter.example","secret_env":"bare"}`:                                 "secret_env",
		`{"url":"https://adapter.example","secret_env":"bad"}`:                                  "secret_env",
		`{"url":"https://adapter.example","secret_env":"good","previous_secret_env":"short"}`:   "previous_secret_env",
		`{"url":"https://adapter.example","secret_env":"good","previous_secret_file":"gone"}`:   "previous_secret_file",
	} {
		c, err := adapter.Type().Open(env, "route", []byte(object))
		wrong, _ := errors.AsType[*connector.SettingError](err)
		switch {
		case field == "" && (err != nil || c == nil):
			t.Errorf("%s: %v", object, err)
		case field != "" && (wrong == nil || wrong.Field != field):
			t.Errorf("%s: %v; want it to be about %s", object, err, field)
		}
	}
}

func adapterSample(secret string) string {
	return `{"url":"http://127.0.0.1:8090","secret_file":"` + secret + `"}`
}
