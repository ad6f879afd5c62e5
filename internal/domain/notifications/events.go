package notifications

import "stackyard/internal/domain/events"

// ping is sent to a webhook when it is created and when its settings change. It can be listed among the events that a
// webhook chooses, although every webhook gets it.
const ping = "ping"

// eventNames lists every event that receivers with a list of events can choose.
var eventNames = func() names {
	list := names{ping}
	for _, name := range events.All {
		list = append(list, string(name))
	}
	return list
}()
