package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAdminPortTellsAliveReadyAndStatus(t *testing.T) {
	var reasons []string
	a := &admin{notReady: func() []string { return reasons }, status: func() any { return map[string]int{"tasks": 4} }, query: http.NotFoundHandler()}
	addr, stop, err := a.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	url := "http://" + addr.String()
	wantAnswer(t, url+"/livez", 200, "alive")
	wantAnswer(t, url+"/readyz", 200, "ready")
	wantAnswer(t, url+"/status", 200, `"tasks": 4`)
	wantAnswer(t, url+"/nowhere", 404, "")
	wantAnswer(t, url+"/", 200, "/livez\n/readyz\n/status\n/query")
	reasons = []string{"task post/0 is restoring: 10 of 20 records", "no broker answers"}
	wantAnswer(t, url+"/readyz", 503, "restoring: 10 of 20 records\nno broker")
	wantAnswer(t, url+"/livez", 200, "alive")
}

func wantAnswer(t *testing.T, url string, code int, says string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != code || !strings.Contains(string(body), says) {
		t.Errorf("%s answers %d %q, want %d %q", url, resp.StatusCode, body, code, says)
	}
}

func TestTakenAdminPortNamesTheWayOut(t *testing.T) {
	a := &admin{notReady: func() []string { return nil }, status: func() any { return nil }, query: http.NotFoundHandler()}
	addr, stop, err := a.listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, _, err = a.listen(addr.String())
	wantHint(t, err, exitFailed, "admin.listen")
}
