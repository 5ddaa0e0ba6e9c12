### The texts of the console in English. Those that the dashboard has too are in `../en.ftl`.

## Every page

console-brand = Dikala operators
console-node-of = Node { $node }
console-full-access = Full access
console-view-only = View-only access
console-nothing-changed = Nothing was changed
console-back = Back
console-any = any
console-previous-page = Previous page
console-next-page = Next page
console-never = never
console-error-home = Go to the overview
console-foreign-words = The form is out of date. Reload the page and try again.
console-view-only-words = You are signed in with `operator.read_token`, which changes nothing. Sign in with `operator.token` to do this.

## The navigation, and the titles of its pages

console-nav-activity = Activity
console-nav-customers = Customers
console-nav-system = System
console-overview = Overview
console-calls = Calls
console-webhooks = Webhooks
console-functions = Functions
console-ledger = Ledger
console-tenants = Tenants
console-bridges = Bridges
console-audit = Audit
console-actors = Actors
console-nodes = Nodes
console-database = Database
console-http = HTTP
console-configuration = Configuration

## What a post did

console-done-signed-out = You are signed out.
console-done-signed-out-here = You are signed out of this browser. That could not be written down yet: a copy of the session would still be let in at another node, or after a restart. If somebody may have one, change the token.
console-done-saved = Saved.
console-done-call-ending = The bridge is told to hang up.
console-done-webhook-paused = Paused. Deliveries wait; none is lost.
console-done-webhook-resumed = Resumed. Deliveries continue in their order.
console-done-webhook-recovering = Failed deliveries of that time are resent in the background.
console-done-delivery-resent = Delivery resent.
console-done-delivery-resent-later = The delivery will be resent as soon as its webhook accepts deliveries.
console-done-problem-snoozed = Snoozed for an hour. The problem is listed below until then.
console-done-problem-shown = The problem is shown again.
console-done-problem-over = That problem is over.
console-done-ledger-verified = Ledger verified.
console-done-bridge-made = Bridge created.
console-done-bridge-revoked = Bridge revoked.
console-done-tenant-made = Tenant created. Next, add a key, a user, a number and minutes.
console-done-tenant-suspended = Tenant suspended.
console-done-tenant-resumed = Tenant resumed.
console-done-key-made = Key created.
console-done-key-revoked = Key revoked.
console-done-user-made = User added.
console-done-link-made = Link created.
console-done-user-removed = User removed.
console-done-booked = Minutes added.
console-done-number-given = Number added.
console-done-number-deleted = Number deleted.

## Signing in

console-token = Token
console-token-hint = operator.token, or operator.read_token to look only.
console-token-where = You find the tokens in the configuration of the service.
console-token-wrong = The token is wrong.

## Words of the API

console-word-ringing = ringing
console-word-answered = answered
console-word-ended = ended
console-word-dropped = dropped
console-word-failed = failed
console-word-pending = pending
console-word-succeeded = succeeded
console-word-failing = failing
console-word-disabled = disabled
console-word-paused = paused
console-word-rate = rate
console-word-errors = errors
console-word-p99 = p99
console-word-owner = owner
console-word-viewer = viewer
console-word-purchase = purchase
console-word-usage = usage
console-word-refund = refund
console-word-adjustment = adjustment
console-word-bonus = bonus
console-word-caller = caller
console-word-agent = agent
console-word-bridge = bridge
console-word-tenant = tenant
console-word-operator = operator
console-word-system = system
console-word-closed = closed
console-word-open = open
console-word-sealed = sealed
console-word-unread = unread
console-word-elsewhere = elsewhere
console-word-default = default

## Times

console-seconds = { $count } s
console-minutes-short = { $count } min
console-hours = { $count } h
console-days = { $count } days
console-under-a-minute = under a minute
console-moment-hint = 2026-01-15, or 2026-01-15T03:30:00Z

## Names of columns, facts and fields on several pages

console-agent = Agent
console-agent-id = Agent's id
console-bridge = Bridge
console-bridge-id = Bridge's id
console-call = Call
console-created = Created
console-description = Description
console-key = Key
console-last-seen = Last seen
console-length = Length
console-minutes = Minutes
console-name = Name
console-node = Node
console-number = Number
console-revoke = Revoke
console-revoke-of = Revoke { $name }
console-revoked = Revoked
console-is-revoked = revoked
console-is-active = active
console-since = Since
console-sort-by = Sort by
console-started = Started
console-status = Status
console-tenant = Tenant
console-tenant-id = Tenant's id
console-type = Type
console-who = Who
console-failed-of = { $count } failed
console-with-country-code = With + and country code.

## Columns of tables

console-actor-types-columns = Type | Running | Mailbox / highest | Per second | Wait p50 / p99 | Handling p50 / p99 | Errors | Restarts | Lost
console-event-loops-columns = Thread | Max delay
console-messages-columns = Message | Mailbox | Highest | Handled | Wait p50 / p99 | Handling p50 / p99 | Errors | Lost
console-instances-columns = Instance | Current message | Handled | Busy | Last messages
console-audit-columns = When (UTC) | Action | Object | Tenant | Who | From
console-bridges-columns = Bridge | Status | Calls | Last seen | Created
console-calls-columns = Started (UTC) | Status | Reason | Tenant | From, to | Length
console-reservations-columns = Reserved | Used | Grants | Created | Settled
console-configuration-columns = Key | Value | From
console-pools-columns = Pool | In use | Idle | Unopened
console-deliveries-columns = Created (UTC) | Event | Status | Attempts | Next
console-functions-columns = Function | Tenant | Circuit | Last minute | Total | p50 / p99 | Last fault
console-open-reservations-columns = Call | Tenant | Reserved | Used | Since | Node
console-nodes-columns = Node | Address | Version | Started | Lease | Calls | Bridges
console-http-columns = Route | Last minute | Total | 4xx | p50 / p99
console-transactions-columns = When (UTC) | Type | Minutes | Balance | Reference | Description
console-keys-columns = Key | Status | Created | Last used
console-tenants-columns = Tenant | Status | Plan | Minutes | Created (UTC)
console-numbers-columns = Label | Number | Status | Agent
console-people-columns = Who | Role | Password | Created
console-webhooks-columns = Endpoint | Tenant | Status | Due | Queue | Last answer

## The overview

console-problems = Problems
console-no-problem = Nothing.
console-no-problem-words = Calls, minutes and webhooks flow.
console-critical = { $count ->
    [one] 1 critical problem
   *[other] { $count } critical problems
}
console-lasts = for { $time }
console-amount-backlog = { $count ->
    [one] 1 delivery waits
   *[other] { $count }{ $more ->
        [yes] {" or more"}
       *[no] {""}
    } deliveries wait
}, last answer { $answer }
console-amount-backlog-unanswered = { $count ->
    [one] 1 delivery waits
   *[other] { $count }{ $more ->
        [yes] {" or more"}
       *[no] {""}
    } deliveries wait
}
console-amount-refused = the last one { $time } ago
console-amount-minutes = { $count } min left
console-snooze = Snooze 1 h
console-snoozed = { $count ->
    [one] 1 snoozed problem
   *[other] { $count } snoozed problems
}
console-snoozed-until = snoozed until { $time }
console-show-again = Show again
console-figures = Figures
console-ten-minutes = The last ten minutes
console-ten-minutes-ago = 10 min ago
console-day = The last 24 hours
console-day-ago = 24 h ago
console-as-table = As a table
console-limit = limit { $limit }
console-min-max = min { $min }, max { $max }
console-a-minute = a minute
console-now = now
console-ago = { $time } ago
console-changes = What changed lately
console-change-started = Node { $node } started with version { $version }
console-until-when = Until
console-figure-calls_now = Calls now
console-figure-calls_per_second = Calls that ended
console-figure-answered_share = Answered
console-figure-ack_p50 = Acknowledgements, p50
console-figure-ack_p99 = Acknowledgements, p99
console-figure-deliveries_per_second = Deliveries
console-figure-oldest_due = Oldest delivery due, open circuits left out
console-figure-batch_items = Ledger batch
console-figure-commit_p50 = Ledger commits, p50
console-figure-commit_p99 = Ledger commits, p99

# Problems and their advice, also in the answers of the operators' API. A node that is not ready shows the words of its readiness check.
console-problem-not_ready = { $target ->
   *[other] { $summary }
}
console-problem-not_ready-action = { $target ->
   *[other] { $action }
}
console-problem-ledger_differences = The books do not add up in { $count ->
    [one] 1 place
   *[other] { $count } places
}.
console-problem-ledger_differences-action = Run `dikala ledger verify`; sell no credit to the tenants that it names until the cause is known.
console-problem-clock_off = This machine's clock is { $time } { $way ->
    [ahead] ahead of
   *[behind] behind
} the service's clock.
console-problem-clock_off-action = Bills and deadlines are not affected; signatures of webhooks use the machine's clock. Correct it (NTP). If the service's clock is the wrong one, stop all nodes in a quiet moment, then start them.
console-problem-database_clock_off = The database's clock is { $time } { $way ->
    [ahead] ahead of
   *[behind] behind
} the service's clock.
console-problem-database_clock_off-action = Bills and deadlines are not affected: all nodes keep their common time. Correct the clock of the database's machine (NTP). If the service's clock is the wrong one, stop all nodes in a quiet moment, then start them.
console-problem-actor_restarted = An actor panicked { $time } ago and was restarted: { $target }.
console-problem-actor_restarted-action = It was restarted, but it is a bug: find `an actor panicked` in the log and report it.
console-problem-event_loop_blocked = The event loop of the thread { $target } was blocked for { $time }.
console-problem-event_loop_blocked-action = See whether the machine lacks processor time. If only one thread is late, report it with the log.
console-problem-mailbox_full = The mailbox of { $target } is full: { $count } messages wait, and senders wait or are refused.
console-problem-mailbox_full-action = { console-problem-mailbox_backlog-action }
console-problem-mailbox_backlog = { $count } messages wait for { $target }.
console-problem-mailbox_backlog-action = See on the page of its type which message takes long, and whether its thread or the database is slow.
console-problem-messages_lost = { $rate } messages a second to { $target } are lost: senders gave up waiting.
console-problem-messages_lost-action = { console-problem-mailbox_backlog-action }
console-problem-acknowledgements_slow = Bridges wait { $time } for replies about calls.
console-problem-acknowledgements_slow-action = Callers hear silence. See whether commits are slow, a thread is blocked, or the processor is busy.
console-problem-commits_slow = Commits of the ledger take { $time }.
console-problem-commits_slow-action = Check the database's disk, and which other programs write to it.
console-problem-requests_fail = { $share } % of all requests fail.
console-problem-requests_fail-action = See under HTTP which routes fail and with which status; 503 usually means that the database is away.
console-problem-bridges_gone = No bridge is connected; the last sign of life was { $time } ago.
console-problem-bridges_gone-action = No calls arrive over sockets. Check the bridges and the network to them.
console-problem-disk_low = The disk of the database has { $free } MiB left.
console-problem-disk_low-action = Free space, or move the database to a larger disk. On a full disk no call is accepted.
console-problem-deliveries_late = A delivery has been due for { $time } although its endpoint is not failing.
console-problem-deliveries_late-action = See whether attempts are made, and whether their outcomes can be stored.
console-problem-deliveries_not_made = { $count ->
    [one] 1 attempt
   *[other] { $count } attempts
} of deliveries could not be made by this service.
console-problem-deliveries_not_made-action = They are repeated. See whether the process has reached its limit of open files (`process_open_fds`).
console-problem-secrets_sealed = The secret of { $count ->
    [one] 1 webhook
   *[other] { $count } webhooks
} does not open with secrets.key.
console-problem-secrets_sealed-action = Start the service with the key that sealed them; `dikala check` names these webhooks.
console-problem-endpoint_hangs = An endpoint of { $tenant } does not answer: webhook { $target }.
console-problem-endpoint_hangs-action = Attempts are repeated, and other webhooks are not affected. Tell the tenant if it lasts.
console-problem-webhook_failing = The webhook { $target } of { $tenant } keeps failing.
console-problem-webhook_failing-action = The tenant misses events: see the last answer, and tell the tenant. Recover resends failed deliveries.
console-problem-webhook_disabled = The webhook { $target } of { $tenant } was disabled because it kept failing.
console-problem-webhook_disabled-action = The tenant gets no events: tell the tenant to repair the server and enable the webhook. Then recover resends failed deliveries.
console-problem-webhook_paused = The webhook { $target } of { $tenant } is still paused.
console-problem-webhook_paused-action = Its deliveries wait until you resume it.
console-problem-more_webhooks = More webhooks than those listed fail, were disabled or are paused.
console-problem-more_webhooks-action = Check this machine's network (DNS, firewall, certificates). Webhooks lists all of them.
console-problem-credit_refused = { $tenant } has no minutes: { $count ->
    [one] 1 call was
   *[other] { $count } calls were
} refused within an hour.
console-problem-credit_refused-action = Its callers are turned away. Tell the tenant, or add minutes.
console-problem-credit_short = The minutes of { $tenant } are used up in about { $time }, at the pace of the last week.
console-problem-credit_ends = The minutes of { $tenant } are used up in less than an hour, at the pace of the last week.
console-problem-credit_ends-action = Tell the tenant, or add minutes. Without minutes calls are refused.
console-problem-credit_short-action = Tell the tenant, or add minutes. Without minutes calls are refused.
console-problem-tenant_floods = { $tenant } exceeds its rate limit: { $count } requests were refused within a minute.
console-problem-tenant_floods-action = The limit works and others are served. Tell the tenant, or raise its rateLimit.

## Actors

console-event-loops = Event loops
console-messages = Messages
console-messages-to = Messages to { $kind }
console-actor-types = Types of actor
console-running = Running
console-mailbox = Mailbox
console-highest-of = highest { $count }
console-messages-per-second = Messages per second
console-errors = Errors
console-restarts = Restarts
console-lost = Lost
console-busiest = Busiest
console-busiest-instances = Busiest instances
console-none-running = None is running.
console-none-running-words = They start when there is work for them.
console-doing = { $message } for { $time }
console-waits = waits for messages
console-message-ago = { $message } { $time } ago
console-call-granted = { $status }, { $minutes } min granted
console-next-deadline = looks at the clock in { $time }

## The audit

console-actor-hint = operator, cli, or the id of a user or a key.
console-action = Action
console-at-or-after = At or after
console-before = Before
console-no-entries = No entries
console-no-entries-words = No changes yet, or none match the filter.

## Bridges

console-create-bridge = Create a bridge
console-no-bridges = No bridges
console-no-bridges-words = Create one. The bridge signs in with its token.
console-connected = connected
console-not-connected = not connected
console-built-in-bridge = Built-in bridge
console-built-in-words = Counts of the bridge in this process since its start; all of them are in `/metrics` too.
console-active-calls = Active calls
console-joined-calls = { $calls }, { $joined } of them joined to a person
console-incoming-calls = Incoming calls
console-calls-to-people = Calls to people
console-outcomes = { $answered } answered, { $refused } refused, { $cancelled } cancelled, { $failed } failed
console-answer-times = INVITE to answer, p50 / p99
console-barge-in-times = Interruption to silence, p50 / p99
console-trunks = Trunks registered
console-packets-in = Packets from callers, ended calls
console-packets-in-of = { $received } received, { $lost } lost, { $late } too late
console-packets-out = Packets to callers
console-packets-out-of = { $sent }, { $late } more than 20 ms late
console-interruptions = Interruptions
console-interruptions-of = { $pauses }, the model was interrupted { $interruptions } times
console-model-connections = Model connections
console-model-connections-of = { $again } made again, { $lost } calls lost their voice
console-model-cost = Model cost
console-copy-token = Copy the token now. It is not shown again.
console-revoke-bridge = Revoke this bridge
console-revoke-bridge-title = Revoke this bridge?
console-revoke-bridge-words = The token of { $name } is refused from now on, and its sockets are closed within a second.
console-revoke-bridge-calls = It holds { $calls } calls, which nobody speaks for any more.
console-revoke-bridge-final = You cannot undo this. Create another bridge for another token.

## Calls

console-number-called = Number called
console-caller = Caller
console-started-from = Started at or after
console-started-before = Started before
console-from-to = From, to
console-channel = Channel
console-no-calls = No calls
console-no-calls-words = No calls are active on this node, or none match the filter.
console-end = End
console-end-of = End call { $call }
console-bridge-call-id = the bridge's own id: { $id }
console-events = Events
console-version = version { $version }
console-answered = Answered
console-joined = Connected to a person
console-voice = Voice
console-turn-latency = Time to an answer
console-turn-latency-of = { $p50 } ms, 95 % within { $p95 } ms
console-stalls = Long pauses
console-caller-interruptions = Interruptions by the caller
console-last-heartbeat = Last heartbeat
console-reason = Reason
console-reason-requested = Ended by the tenant
console-reason-operator = Ended by an operator
console-reason-suspended = Tenant suspended
console-failure = Failure
console-ended-by-column = Ended by
console-call-actor = Actor
console-call-deliveries-of = { $succeeded } delivered, { $pending } waiting, { $failed } failed for good
console-timeline = Timeline
console-timeline-words = { $day }. Times count from the ring.
console-as-text = As text, to send on
console-no-bridge-messages = No messages of the bridge here: another node read them, this node has restarted, or newer calls took their place.
console-source-sip = SIP
console-source-bridge = Bridge
console-source-call = Call
console-source-request = Request
console-source-ledger = Ledger
console-source-function = Function
console-source-event = Event
console-source-delivery = Delivery
console-step-message = { $kind }, reply after { $time }
console-step-message-refused = { $kind } refused after { $time }: { $code }
console-step-rang = Ringing
console-step-ended = Ended: { $why }
console-step-asked-end = { $who } asked to end the call
console-step-asked-transfer = { $who } asked to transfer the call to { $to }
console-step-reserved = First minute reserved
console-step-settled = { $minutes } min booked, extended { $grants } times
console-step-balance = balance { $minutes } min
console-step-function = { $name }: ok in { $ms } ms
console-step-function-failed = { $name }: { $fault } in { $ms } ms
console-step-event = { $kind } written
console-step-event-after = { $kind } written { $ms } ms after its cause
console-step-attempt = { $kind }, attempt { $number }: { $outcome } in { $ms } ms
console-step-due = { $kind }: next attempt
console-ended-by = by { $who }
console-end-call = End this call
console-end-call-title = End this call?
console-end-call-words = The bridge is told to hang up { $number }. Where it does not confirm, the call ends in the books after ten seconds.
console-end-call-reason = It ends with the reason `operator`; the tenant is told of it, and the minutes that were begun are paid.
console-last-grant = (the last)
console-grant-refused = refused: { $refusal }
console-unsettled = open
console-media = Media
console-media-columns = Leg | Direction | Codec | Packets | Lost | Late | Jitter p95 | Round trip | Concealed | MOS
console-no-media = No figures here: the call had no media, its bridge runs elsewhere or has restarted, or newer calls took its place.
console-leg-caller = Caller
console-leg-person = Person
console-received = received
console-sent = sent
console-sip-words = Numbers in SIP messages are masked. `dikala call trace` prints whole messages and writes a capture for Wireshark.
console-sip-forgotten = { $count } older messages are no longer kept.
console-no-sip = No SIP messages here: the bridge that held the call runs elsewhere or has restarted, or the call is not among its last 10,000.
console-credit = Credit
console-no-reservation = No reservation: the call was refused before it needed credit, or the record was deleted.
console-reservations = Reservations

## Configuration

console-key-hint = Or a part of the key.
console-configuration-words = The configuration of this node at its start. Secrets are masked.
console-no-keys-match = No keys match
console-no-keys-match-words = No key contains this text.

## The database

console-size = Size
console-migrations = Migrations
console-commit-times = Ledger commits, p50 / p99
console-pools = Pools

## Deliveries

console-deliveries = Deliveries
console-webhook-id = Webhook's id
console-deliveries-words = Newest first: of all webhooks the newest 100,000.
console-no-deliveries = No deliveries
console-no-deliveries-words = There are none, or none match the filter.
console-test = (test)
console-is-due = due
console-resend = Resend
console-resend-of = Resend { $delivery }
console-delivery = Delivery
console-delivery-of = Delivery of { $event }
console-attempts = Attempts
console-attempts-columns = Attempt | Started (UTC) | Answer | Took
console-no-attempts = No attempt is recorded.
console-finished = Finished
console-next-delivered = Delivered. Nothing more happens.
console-next-given-up = Failed for good: no attempt follows unless it is resent.
console-next-webhook-gone = Its webhook was deleted: no attempt follows.
console-next-disabled = Waits: its webhook is disabled. The tenant has to enable it.
console-next-paused = Waits: its webhook has been paused since { $time }.
console-next-probe = Waits: the endpoint keeps failing, so its circuit is open. The endpoint is probed at { $time }.
console-next-at = The next attempt is at { $time }.
console-next-due = Due: the next attempt is made as soon as its queue has room.

## Functions

console-functions-words = What this node called since its start; the last 1,000 functions are kept in mind. First those whose endpoints are left alone.
console-fault-ago = { $fault }, { $time } ago
console-no-functions = No functions
console-no-functions-words = None was called on this node since its start, or none match the filter.
console-circuit-half-open = half open
console-circuit-until = until { $time }

## HTTP

console-http-words = Requests to both listeners of this node since its start, by route. Times end with the head of the response.
console-no-requests = No requests
console-no-requests-words = No requests since this node started.

## The search

console-search = Search
console-search-label = Id, phone number or name of a tenant
console-search-hint = Whole ids of tenants, calls, numbers, bridges, webhooks, deliveries, events, agents, users, keys and requests; the beginning of a tenant's phone number; a caller's whole number; a part of a tenant's name.
console-search-none = Nothing found
console-search-none-words = No id, phone number or tenant's name matches. Deleted records, and requests that changed nothing, are not found.
console-search-more = More match. Type more of it.
console-calls-from = Calls from
console-user = User
console-event = Event
console-request = Request

## The ledger

console-last-verification = Last verification
console-oldest-reservations = Oldest open reservations
console-open-reservations = Open reservations
console-open-reservations-of = { $holds }, { $minutes } minutes
console-differences = Differences
console-differences-of = { $count } accounts and open holds that did not add up at the last look, a minute ago at most
console-checked = Checked
console-checked-of = { $items } items in { $batches } transactions since the start
console-not-verified = None since this node started, or one is running now.
console-verified = { $time }: { $tenants } tenants, { $transactions } transactions, { $holds } holds.
console-books-right = the books are right
console-books-wrong = { $count } differences
console-first-differences = The first { $count }; `GET /operator/v1/ledger` has all.
console-verify-tenant-hint = Leave empty to check all tenants.
console-verify-words = Recomputes every balance from its transactions and reservations. With many tenants it may take minutes.
console-verify = Verify
console-verification-running = The ledger is being verified already; wait for that.
console-no-open-reservations = None: no call is active.
console-one-right = The books of this tenant are right: { $count } transactions.
console-one-difference = One difference in the books of this tenant: { $first }
console-one-differences = { $count } differences in the books of this tenant, first: { $first }

## Nodes

console-this-node = (this one)

## Tenants

console-create-tenant = Create a tenant
console-name-or-id = Name or id
console-no-tenants = No tenants
console-no-tenants-words = There are none, or none match the search.
console-plan = Plan
console-is-suspended = suspended
console-is-low = low
console-plan-hint = Leave empty for the plan's.
console-threshold-hint = { $minutes } if left out; below it the tenant is told.
console-requests-a-minute = Requests a minute
console-low-credit = Low credit, in minutes
console-calls-at-once = Calls at the same time
console-plans-own = the plan's
console-of-plan = { $value } ({ $plan })
console-unlimited = no limit
console-calls-now = Calls now
console-calls-today = Calls today
console-answered-today = Answered today
console-minutes-left = Minutes left
console-a-day-last-week = { $count } a day in the last 7 days
console-last-week = { $share } in the last 7 days
console-calls-are-refused = calls are refused
console-minutes-unused = none used in the last 7 days
console-minutes-too-early = used for less than 3 days
console-minutes-last-hours = less than a day at this pace
console-minutes-last = about { $days } days at this pace
console-no-minutes-left = No minutes left: every call is refused.
console-webhook-is = Webhook { $state }:
console-function-fails = Function { $name } failed { $failed } of its last 10 times.
console-reasons = Calls that failed or were dropped
console-reasons-columns = Reason | Last hour | Last 24 hours
console-reasons-latest = Only the latest 300 failed and the latest 300 dropped calls are counted.
console-see-failed = Failed calls
console-see-dropped = Dropped calls
console-change = Change
console-resume = Resume
console-suspend = Suspend
console-suspend-tenant = Suspend this tenant
console-suspend-tenant-title = Suspend this tenant?
console-suspend-tenant-words = Requests and new calls of { $name } are refused from now on, and its people are signed out. Calls under way go on, and nothing is removed.
console-suspend-tenant-back = It can be resumed at any time.

## A tenant's minutes

console-balance = Balance
console-balance-of = { $minutes } minutes
console-held = Reserved for live calls
console-purchased = Purchased in total
console-used-total = Used in total
console-add-minutes = Add minutes
console-add = Add
console-transactions = Transactions
console-minutes-hint = Negative only for an adjustment.
console-reference = Reference
console-reference-hint = A reference is booked once, even if it is sent again.
console-none-yet = None yet.
console-reference-taken = The reference was used for another booking of this tenant; give each booking a reference of its own.
console-minutes-short-of = The tenant has only { $minutes } minutes available; those that running calls hold cannot be taken.
console-of-call = call

## A tenant's keys

console-keys = Keys
console-no-keys = No keys
console-no-keys-words = Programs of this tenant need a key to use the API.
console-create-key = Create a key
console-key-name-hint = For example: Bandung cash register.
console-copy-key = Copy the key now. It is not shown again.
console-revoke-key = Revoke this key
console-revoke-key-title = Revoke this key?
console-revoke-key-words = Requests with { $name } ({ $prefix }) are refused from the next one on.
console-revoke-key-final = You cannot undo this. Create another key first if one is still needed.

## A tenant's numbers

console-numbers = Numbers
console-label = Label
console-no-numbers = No numbers
console-no-numbers-words = Callers cannot reach this tenant yet.
console-add-a-number = Add a number
console-add-number = Add number
console-is-off = off
console-number-exists = This number exists already.
console-change-number = Change a number
console-takes-calls = Takes calls
console-move-number-hint = The id of another tenant moves the number there, without its agent.
console-delete = Delete
console-all-numbers = All numbers of this tenant
console-delete-number = Delete this number
console-delete-number-title = Delete this number?
console-delete-number-words = Calls to { $number } ({ $label }) are refused from now on. Its calls stay.

## A tenant's people

console-people = People
console-role = Role
console-password-set = set
console-password-unset = not yet
console-no-users = No users
console-no-users-words = Add a user. The link that is shown then opens the dashboard.
console-add-user = Add a user
console-email-taken = Somebody has that address already; give another one.
console-copy-link = Copy the link now. It is not shown again.
console-copy-link-words = It works once, within 30 minutes. Send it privately to this user.
console-link = Link
console-email = Email
console-user-name-hint = Leave empty for the part before the @.
console-login-link = Login link
console-login-link-of = Login link for { $name }
console-remove = Remove
console-remove-of = Remove { $name }
console-remove-user = Remove this user
console-remove-user-title = Remove this user?
console-remove-user-words = { $name } ({ $email }) is signed out everywhere and cannot sign in any more. Keys that this person made stay.

## Webhooks

console-webhook = Webhook
console-webhooks-words = Queues are the endpoints' queues in the memory of this node.
console-all-deliveries = All deliveries
console-endpoint = Endpoint
console-due = Due
console-queue = Queue
console-last-answer = Last answer
console-no-webhooks = No webhooks
console-no-webhooks-words = No tenant has created one, or none match the filter.
console-due-or-more = { $count } or more
console-due-for = for { $time }
console-queue-idle = idle
console-queue-of = { $state } { $inflight } in flight, { $waiting } waiting
console-probed = probed { $time }
console-answer-of = { $answer } in { $ms } ms, { $time } ago
console-status-since = since { $time }
console-failed-in-row = Failed in a row
console-pause-webhook = Pause
console-resume-webhook = Resume
console-recover = Recover
console-recover-title = Resend failed deliveries
console-recover-hint = 2026-01-15T03:30:00Z, or 2026-01-15.
console-recover-until-hint = Leave empty for now.
console-recover-words = All deliveries that failed for good in that time are resent in the background, in their order.
console-to-webhook = Back to the webhook
console-calls-reach = Of all tenants only the newest 100,000 ended calls are searched. Give the tenant to find older ones.
