package delivery

// eventLog is read by its receivers: see log_http.go.
var eventLog = &Provider{Names: listedNames}
