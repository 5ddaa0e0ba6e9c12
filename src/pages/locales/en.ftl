### The texts of the dashboard, the mails and both sides in English. Names begin with the page or the kind of thing that they are on.

## Every page

page-skip = Skip to the content
page-menu = Menu
page-more = More
page-close = Close
page-first = Main pages
page-way = Breadcrumb
page-sign-out = Sign out
page-save = Save
page-unsaved = Not saved yet
page-changed-meanwhile = Somebody else saved changes here after you opened this page. Nothing was overwritten. Open the page in a new tab to compare, or save again to replace those changes with yours.
page-cancel = Cancel
page-actions = Actions
page-optional = optional
page-show = Show
page-hide = Hide
page-copy = Copy
page-copied = Copied
page-errors = Fix { $count } fields to continue:
page-filter = Filter
page-search = Search
page-filter-submit = Show
page-look-only = You can view these settings but not change them. Ask an owner: { $owners }.
page-look-nobody = You can view these settings but not change them. The account has no owner: ask the operator of the service.
page-yes = Yes
page-no = No
page-nothing = –
page-filter-none = Show all
page-paging = Pages
page-newer = Newest
page-older = Older

## Live parts of a page

live-on = Live – Pause
live-paused = Paused – Resume
live-lost = Not live – reconnecting
live-new-one = 1 new call ↑
live-new-many = # new calls ↑
live-new-call = A call came in.

## The navigation

dashboard-brand = Dikala
nav-work = Overview
nav-home = Home
nav-calls = Calls
nav-settings = Settings
nav-keys = API keys
nav-function-secret = Function secret
nav-members = Members
nav-account = Your account

## What a post did

done-saved = Saved.
done-signed-out = You are signed out.
done-password-set = Your password is set. Other browsers that were signed in are signed out.
done-invited = Invitation created. Send the link below to this person.
done-invited-by-mail = Invitation created. It will be emailed too; you can also send the link below yourself.
done-link-made = New link created. Send it to this person.
done-link-mailed = New link created. It will be emailed too; you can also send it yourself.
done-role-changed = Role changed.
done-member-removed = Member removed and signed out everywhere.
done-call-erased = Personal data deleted from this call.
done-key-made = API key created.
done-key-revoked = API key revoked. Requests with it are refused from now on.
done-secret-rotated = Secret replaced. Nothing is signed with the old one any more.

## What went wrong

error-home = Go to Home
error-request-id = For our help desk:
error-not-found = Page not found
error-not-found-words = The address is wrong, or the page was deleted.
error-too-large = Too much data
error-too-large-words = What you sent is larger than 768 KiB. Shorten it and try again.
error-too-many = Too many requests
error-too-many-words = Wait a moment, then try again.
error-busy = Not available right now
error-busy-words = The service cannot answer at this moment. Nothing is lost; try again in a few seconds.
error-suspended = This account is suspended
error-suspended-words = Ask the operator of the service why, and what to do.
error-internal = Something went wrong on our side
error-internal-words = Try again. If it happens once more, tell the operator of the service.
error-refused = Not possible
error-export-running = Another export is running for this account, or too many for others. Try again when it is done.
error-refused-words = The request was refused:
error-foreign = This form is out of date
error-foreign-words = Nothing was changed. The form came from another site, or from a page that was open before you signed in. Go back, reload the page, and send it again.
error-outdated-words = Nothing was changed. You signed in again after you opened the page. What you typed is kept:
error-outdated-send = Send it again
error-signed-out = You are signed out
error-signed-out-words = Nothing was changed, and what you typed is kept in this page. Sign in again in a new tab; then come back and press the button.
error-signed-out-link = Sign in in a new tab
error-viewer = You have view-only access
error-viewer-words = Nothing was changed. Your role is viewer. Ask an owner of this account to do it, or to make you an owner.
error-link = This link no longer works
error-link-words = It was used already, or it has expired. Ask the sender for a new one.
error-wait = Too many wrong passwords
error-wait-words = { $minutes ->
    [one] For your safety, sign-in is blocked for now, even with the right password. Try again in a minute.
   *[other] For your safety, sign-in is blocked for now, even with the right password. Try again in { $minutes } minutes.
}

## What is wrong with a field

# One for each code of the API; in English its own words are shown where they say more.

fault-required = This is required.
fault-too-short = At least { $bound } characters.
fault-too-long = At most { $bound } characters.
fault-too-small = At least { $bound }.
fault-too-large = At most { $bound }.
fault-is-empty = Choose at least one.
fault-is-too-long = This is too long.
fault-is-too-small = This is too small.
fault-is-too-large = This is too much.
fault-not-allowed = This is not possible here.
fault-invalid-format = This cannot be read.
fault-invalid-type = This is of the wrong kind.
fault-unknown-field = This is not known.
fault-duplicate = This already exists.
fault-not-found = This does not exist.
fault-insecure-url = The address has to begin with https.
fault-blocked-address = This address may not be reached.
fault-phone = This is not a phone number. Type it as 0812 3456 7890, or with + and country code.
# These take the place of the API's words. In English they are those words.
fault-entry = Entry { $number }
fault-whole-number = { $api }
fault-not-in-list = { $api }
fault-twice = { $api }
fault-id = { $api }
fault-date = { $api }
fault-ends-too-early = { $api }
fault-time-zone = { $api }
fault-language = { $api }
fault-email = { $api }
fault-control-characters = { $api }
fault-nul = { $api }
fault-color = { $api }
fault-not-an-agent = { $api }
fault-agent-too-large = { $api }
fault-agents-too-large = { $api }
fault-too-many-agents = { $api }
fault-too-many-functions = { $api }
fault-function-name = { $api }
fault-function-built-in = { $api }
fault-function-exists = { $api }
fault-url = { $api }
fault-url-insecure = { $api }
fault-url-host = { $api }
fault-url-user = { $api }
fault-url-fragment = { $api }
fault-url-internal = { $api }
fault-url-port = { $api }
fault-url-not-public = { $api }
fault-url-own = { $api }
fault-origin = { $api }
fault-origin-insecure = { $api }
fault-too-many-origins = { $api }
fault-no-transfer = { $api }
fault-is-joined = { $api }
fault-too-many-transfers = { $api }
fault-json = This is not JSON: line { $line }, column { $column } cannot be read.
fault-json-refused = { $api }
fault-too-many-bytes = { $api }
fault-schema-object = { $api }
fault-schema-keyword = { $api }
fault-schema-type = { $api }
fault-schema-value = { $api }
fault-schema-property = { $api }
fault-schema-too-large = { $api }

## Signing in

sign-in-title = Sign in
sign-in-email = Email
sign-in-password = Password
sign-in-submit = Sign in
sign-in-wrong = The email address or the password is wrong.
sign-in-forgotten = Password forgotten? Ask the operator of the service for a one-time link. If you never set a password, an owner of your account can make the link too.

link-title = Sign in to { $tenant }
link-words = This link signs you in as { $email }.
link-submit = Sign in
link-once = It works once, until

password-title = Set a password
password-words = With it you can sign in without a link the next time.
password-new = New password
password-hint = 10 to 256 characters. A few words that only you put together are easy to keep in mind and hard to guess.
password-submit = Set password
password-later = Later
password-wrong = This is not your password.
password-common = This is one of the most common passwords, which are tried first. Think of another one.

## Home

home-title = Hello, { $name }
home-no-password = You have no password yet. Without one you need a new link each time you sign in.
home-set-password = Set a password
home-balance = Balance
home-minutes = { $minutes ->
    [one] { $minutes } minute
   *[other] { $minutes } minutes
}

## Agents

nav-agents = Agents
done-agent-made-without = Agent created, but its example function could not be added.
done-agent-made = Agent created. Talk to it, then give it a phone number.
done-agent-duplicated = Agent duplicated. The copy has the same functions, and no number yet.
done-agent-deleted = Agent deleted.

agents-title = Agents
agents-words = An agent answers your phone numbers: with the voice, the greeting and the instructions that you give it.
agents-none = No agents yet
agents-none-words = Create your first agent. You can try it at once, even without a phone number.
agents-make = Create an agent
agents-new = New agent
agents-make-submit = Create agent
agents-name = Name
agents-name-hint = For you and your colleagues; callers do not hear it.
agents-prompt = Instructions
agents-prompt-hint = Who the agent is, what it knows, what it should and should not do. Write as you would to a new colleague.
agents-greeting = Greeting
agents-greeting-hint = The first sentence that callers hear. Left empty, the agent finds its own.
agents-voice = Voice
agents-voice-none = Default voice
agents-voice-puck = upbeat
agents-voice-charon = informative
agents-voice-kore = firm
agents-voice-fenrir = excitable
agents-voice-aoede = breezy
agents-language = Language
agents-provider = Voice provider
agents-provider-default = Default provider
agents-voice-name = Voice by name
agents-voice-name-hint = The provider’s own name of a voice, such as marin. It replaces the voice above.
agents-time-zone = Time zone
agents-time-zone-hint = The agent knows the date and time of this zone, such as Asia/Jakarta.
agents-conversation = Conversation
agents-reminder = Ask after silence (seconds)
agents-reminder-hint = From 3 to 120. The agent asks whether a silent caller is still there.
agents-silence = Hang up after silence (seconds)
agents-silence-hint = From 5 to 600, after the agent has asked twice.
agents-fillers = While a function takes long
agents-fillers-words = A short sentence
agents-fillers-tone = A soft tone
agents-fillers-off = Nothing
agents-interruptions = Callers who interrupt
agents-interruptions-fast = The agent pauses at once
agents-interruptions-model = The voice provider decides
agents-interruptions-off = The agent finishes its sentence
agents-mask-keys = Hide pressed keys
agents-mask-keys-hint = The transcript shows a dot in place of each digit that the caller presses.
agents-minutes = Maximum call length (minutes)
agents-minutes-hint = From 1 to 240. The call ends at this length.
agents-tools = Tools
agents-tools-hint = What the agent may do during a call.
agents-tool-end = End the call
agents-tool-transfer = Transfer the caller to a person
agents-escalation = Transfer to (phone number)
agents-escalation-hint = Such as 0812 3456 7890, or with + and country code.
agents-active = Active
agents-active-hint = An agent that is switched off takes no calls.
agents-inactive = inactive
agents-inactive-words = This agent is switched off: calls to its numbers are refused.
agents-no-escalation = The agent may connect callers to a person, but there is no number for that: it will not offer it. Add the number, or take the ability away.
agents-too-many-versions = This account's agents were changed too often within a short time. Nothing was changed; try again in a few minutes, or delete an agent that is not needed.
agents-unreachable = No phone number uses this agent yet.
agents-take-number = Answer { $number } with this agent
agents-assign = Choose which agent answers which number
agents-parts = Parts of this agent
agents-history = History
agents-numbers = Phone numbers
agents-no-number = no number
agents-and-more = and { $count } more
agents-more-numbers = and more
agents-changed = Changed
agents-more = Copy or delete
agents-duplicate = Duplicate
agents-duplicate-hint = A duplicate has the same settings and functions, and no number.

templates-title = Templates
templates-words = Begin with a template, or with an empty form:
templates-chosen = Replace everything in square brackets with what is true for you.
templates-functions = It comes with an example function ({ $names }) that answers with example data. Replace its address by your own later.
templates-no-functions = It comes without functions, because this service has no public address that they could ask.
template-clinic = Clinic
template-workshop = Workshop
template-restaurant = Restaurant
template-hotel = Hotel
template-shop = Shop
template-courier = Courier
template-school = School
template-property = Property

history-title = History of { $name }
history-words = Every saved change makes a version. A call keeps the version that it began with.
history-version = Version { $number }
history-present = This is what callers meet now.
history-oldest = Nothing older is kept to compare it with.
history-calls = { $count ->
    [one] one call
   *[other] { $count } calls
}
history-outcomes = { $share }% answered, functions failed in { $failing }
history-outcomes-of-some = of { $calls } calls { $share }% answered, functions failed in { $failing }
history-many-calls = 1,000 calls or more
history-conversation = Conversation
history-restore = Restore version { $number }
history-gone = That version is not kept any more.
history-back = Back to the agent
done-restored = The earlier settings are the agent's again, as a new version. Functions stayed as they are.

talk-title = Talk to it
talk-words = Call the agent from here, with what the form says, saved or not. It costs minutes as any call does.
talk-no-script = This part of the page needs JavaScript.
talk-caller = Caller's number
talk-caller-hint = What the agent and its functions are told.
talk-begin = Talk
talk-end = Hang up
talk-level = Your voice
talk-keys = Keys
talk-log = The conversation
talk-link = Open the call
talk-website = Put a button for this agent on your website
talk-connecting = Connecting…
talk-ready = The agent is on the line. Speak.
talk-ended = The call is over.
talk-lost = The connection was lost. Try again; if it fails again, ask your operator whether calls from browsers are set up.
talk-insecure = Browsers give the microphone to pages on HTTPS only. Open this page with https://.
talk-refused = The browser refused the microphone. Allow it beside the page's address, then try again.
talk-missing = No microphone was found. Connect one, then try again.
talk-wrong = Something in the form is wrong. Save the agent to see what.
talk-wrong-caller = The caller's number is wrong. Correct it above, then press Talk again.
talk-unavailable = The call could not be made. Try again in a moment.
talk-signed-out = You are signed out. Sign in again.
talk-interrupted = interrupted
talk-running = running
talk-ok = done
talk-error = failed
talk-length = {"{"}count{"}"} of 32,000 characters
chat-begin = Type
chat-title = Type to it
chat-invitation = Try it in writing, with what the form says, saved or not. It costs no minutes, and opens in a new tab.
chat-with = Type to { $name }
chat-saved = The agent answers in writing, with the settings that were saved when this conversation began.
chat-draft = The agent answers in writing, with settings that are not saved.
chat-words = Functions are called as a test. Nothing is billed in minutes, and it is no call.
chat-text = Your message
chat-send = Send
chat-facts = { $left ->
    [one] One message is left.
   *[other] { $left } messages are left.
} The language model cost { $cost } so far.
chat-until = The conversation is removed at
chat-back = Back to the agent
chat-answering = The previous message is still being answered. Send this one again in a moment.
chat-full = This conversation is full: it has { $most } messages, or its texts and results are too long. Begin a new one from the agent's page.
chat-too-many = Very many conversations were begun in this hour. Come back when the oldest of them is an hour old.
chat-too-slow = The answer took too long: the language model or a function is too slow.
chat-no-answer = The language model did not answer. If your message is not above, send it again in a moment.
chat-empty = The language model answered with nothing. If your message is not above, send it again.
chat-endless = The agent called functions without coming to an answer. Look at its instructions and its functions.
chat-not-kept = The answer could not be kept. Send the message again in a moment.
agents-copy = (copy)
agents-delete = Delete
agents-delete-title = Delete { $name }?
agents-delete-functions = Its functions are deleted with it:
agents-delete-numbers = These numbers stay without an agent, and calls to them are refused until you choose another one:
agents-delete-calls = Calls that are running go on to their end, and the history of calls stays.
agents-delete-final = You cannot undo this.

## Functions

done-function-made = Function created. The agent may use it now; test it first.
done-function-deleted = Function deleted.

functions-title = Functions
functions-words = During a call the agent can ask your server, for example whether an order was sent. It uses the answer in the conversation.
functions-none = No functions yet
functions-none-words = With functions the agent can look things up on your server, or have them done, while it talks.
functions-make = Add a function
functions-new = New function
functions-make-submit = Create function
functions-name = Name
functions-name-hint = Letters, digits, _ and -, such as check_order.
functions-description = Description
functions-description-hint = What it does and when to use it. The AI reads this.
functions-endpoint = Address
functions-endpoint-hint = Where on your server the request goes, such as https://shop.example.com/orders. It has a few seconds for its answer, a JSON object.
functions-method = Method
functions-parameters = Parameters
functions-parameters-hint = What the AI has to find out before it calls the function, as a JSON Schema of type object.
parameter-words = What the agent has to find out before it calls the function, such as an order number. Empty rows are ignored.
parameter-row = Parameter { $number }
parameter-name = Name
parameter-kind = Kind
parameter-text = Text
parameter-number = Number
parameter-integer = Whole number
parameter-boolean = Yes or no
parameter-choice = One of a list
parameter-ask = What the agent should ask
parameter-choices = Choices, separated by commas
parameter-required = Required
parameter-add = Add a row
parameter-most = A list has at most 12 rows. Edit the parameters as JSON to add more.
parameter-remove = Remove
parameter-remove-row = Remove parameter { $number }
parameter-as-json = Edit as JSON
parameter-as-list = Edit as a list
parameter-json-only = These parameters say more than a list can show, so they can only be edited as JSON.
parameter-twice = Another row has this name.
functions-example = Example
functions-place = Line { $line }, column { $column }:
functions-no-json = From here on this is not JSON.
functions-request = Request
functions-disabled = switched off
functions-disabled-words = The agent does not use this function: it is not ticked among the agent's tools.
functions-settings = Settings
functions-lately = The last 24 hours
functions-slow = One answer in twenty takes { $ms } ms or longer. The caller hears silence for that long.
functions-last-calls = Last calls
functions-run-when = Time
functions-run-outcome = Outcome
functions-run-length = Took
functions-since = In calls since
functions-calls = Calls
functions-failures = Failures
functions-half = Median
functions-nearly-all = 95th percentile
functions-slowest = Slowest
functions-ms = { $ms } ms
functions-circuit-open = The address did not answer the last requests, so none are sent to it for a while.
functions-circuit-half-open = The address did not answer the last requests. The next call tries it again.
functions-circuit-retry = Next try at
functions-delete = Delete
functions-delete-title = Delete { $name }?
functions-delete-words = { $agent } cannot use it any more from the next call on.
functions-delete-calls = Calls that are running keep it to their end.
functions-test = Test
functions-test-title = Test { $name }
functions-try = Try it
functions-test-words = This sends a real request to your server. It carries X-Service-Test: true, so that your server can tell it apart.
functions-arguments = Arguments
functions-arguments-hint = Example values, as JSON.
functions-test-submit = Send request
functions-test-good = It works. The answer took { $ms } ms.
functions-test-bad = Failed after { $ms } ms.
functions-sent = Request sent
functions-signature = X-Service-Signature is sha256= and the HMAC-SHA256 of the body, as it is, with your function secret as the key. Your server computes the same and compares:
functions-answer = Response
functions-status = Status
functions-no-body = The answer had no body.
functions-told = What the AI is told
functions-fault-timeout = The server did not answer in time. Answer sooner, and do what takes long afterwards.
functions-fault-connection = The server could not be reached. Is the address right, does the server run, is its certificate valid?
functions-fault-blocked = Not sent: the address leads to a network that may not be reached from here.
functions-fault-status = The server answered with a status that is not 2xx. Look at its answer below.
functions-fault-response = The answer is not a JSON object. Look at it below.
functions-fault-large = The answer is larger than 64 KiB. Send only what the AI needs.
functions-misfit = Not sent:
functions-misfit-text = Not sent: { $name } must be text.
functions-misfit-number = Not sent: { $name } must be a number.
functions-misfit-integer = Not sent: { $name } must be a whole number.
functions-misfit-boolean = Not sent: { $name } must be yes or no (true or false).
functions-misfit-required = Not sent: { $name } is required.
functions-misfit-unknown = Not sent: there is no parameter named { $name }.
functions-fault-other = The function cannot be called at the moment.

## Phone numbers

nav-numbers = Phone numbers
done-number-assigned = Saved. Applies from the next call.

numbers-title = Phone numbers
numbers-words = Which agent answers when somebody calls. New numbers come from the operator of the service.
numbers-none = No phone numbers yet
numbers-none-words = Ask the operator of the service for one.
numbers-no-agents = There is no agent yet that could answer.
numbers-number = Number
numbers-agent = Agent
numbers-no-agent = No agent
numbers-agent-of = Agent for { $number }
numbers-save-of = Save the agent for { $number }
numbers-all-agents = All agents
numbers-seek = Part of an agent's name
numbers-seek-submit = Search
numbers-seek-nothing = No agent has that in its name.
numbers-seek-more = The newest { $shown } are shown, { $more } more exist. Search for another by its name.
numbers-inactive = inactive
numbers-inactive-words = The operator switched this number off. Calls to it are refused.
numbers-unanswered = without agent
numbers-agent-inactive = agent inactive

## Your account

account-title = Your account
account-profile = About you
account-email = Email
account-name = Name
account-language = Language
account-language-browser = Same as browser
account-time-zone = Time zone
account-mails-low-credit = Email me when the credit runs low
account-mails-disabled-webhooks = Email me when a failing webhook is disabled
account-password = Password
account-password-set = Set a password
account-password-old = Current password
account-password-new = New password
account-password-change = Change password
account-sessions = Devices that are signed in
account-session-browser = Browser
account-session-address = Address
account-session-began = Since
account-session-used = Last used
account-session-this = this one
account-session-unknown = Unknown
account-everywhere-words = This ends all your sessions, including this one, and cancels unused one-time links.
account-everywhere = Sign out everywhere

## Members

members-title = Members
members-name = Name
members-email = Email
members-role = Role
members-role-of = Role of { $name }
members-role-hint = Owners do everything. Viewers see everything but secrets, and change nothing.
members-owner = Owner
members-viewer = Viewer
members-since = Since
members-you = you
members-no-password = no password yet
members-invite = Invite a person
members-invite-submit = Invite
members-email-taken = This address belongs to a member already. A person can be a member of one account only.
members-too-many = An account has at most { $most } members. Remove one first.
members-link = New link
members-link-of = New link for { $name }
members-link-title = Link for the new member
members-link-words = Send it privately to this person. It works once, within 7 days, and is not shown again.
members-remove = Remove
members-remove-of = Remove { $name }
members-remove-title = Remove { $name }?
members-remove-words = { $email } is signed out everywhere at once and cannot sign in again.
members-remove-keys = API keys that this person created stay active.
members-last-owner = This is the last owner. Make another member an owner first.
members-has-password = This person already has a password.

## API keys

keys-title = API keys
keys-words = A key lets a program of yours do everything that this account can do. Give each program its own.
keys-none = No API keys yet
keys-none-words = Create one for the first program that works with this account.
keys-make = Create a key
keys-name = Name
keys-name-hint = For example: Bandung cash register
keys-make-submit = Create key
keys-too-many = An account has at most { $most } active keys. Revoke one first.
keys-key = Key
keys-begins = Begins with
keys-state = Status
keys-in-force = active
keys-is-revoked = revoked
keys-made = Created
keys-made-by = Created by
keys-by-operator = the operator
keys-by-former = a former member
keys-used = Last used
keys-never-used = never
keys-all = All keys
keys-once = Copy the key now. It is not shown again.
keys-once-words = Keep it where only your program can read it. Anyone who has it can do everything that this account can do.
keys-try = Try it:
keys-line = A line that uses the key
keys-revoke = Revoke
keys-revoke-of = Revoke { $name }
keys-revoke-title = Revoke { $name }?
keys-revoke-words = Programs with this key are refused from the next request on:
keys-revoke-final = You cannot undo this. Give them another key first.
keys-revoked = Revoked keys
keys-revoked-at = Revoked

## The function secret

secret-title = Function secret
secret-words = It signs the requests that calls send to your functions. Your server checks with it that a request comes from us.
secret-shown = Copy it now. To see it again you will be asked for your password.
secret-owners = Only owners see the secret.
secret-show = Show the secret
secret-no-password = Set a password first: you will be asked for it here.
secret-password = Your password
secret-rotate = Replace the secret
secret-rotate-hint = Do this if the wrong person has seen it.
secret-rotate-submit = Replace
secret-rotate-title = Replace the function secret?
secret-rotate-words = Requests to your functions are signed with a new secret from now on. Servers that know only the old secret refuse them: functions fail in calls until the servers have the new one.
secret-rotate-final = The old secret cannot be restored.

## Webhooks

nav-widgets = Website
nav-webhooks = Webhooks
nav-credits = Credit
nav-audit = Audit log

done-widget-created = Button created. Copy the line below into your website.
done-widget-deleted = Button deleted. It disappears when a page is opened again.
done-webhook-made = Webhook created. Copy its secret below.
done-webhook-enabled = Webhook enabled. Waiting deliveries are sent now.
done-webhook-enabled-later = Webhook enabled.
done-webhook-disabled = Webhook disabled.
done-webhook-tested = Test sent. The result is below.
done-webhook-rotated = Secret replaced. Copy the new one below.
done-webhook-deleted = Webhook deleted.
done-recovered = Failed deliveries of that time are being resent.
done-nothing-recovered = No delivery failed in that time, so nothing is resent.
done-resent = Resent. The result is below.
done-resent-later = It will be resent as soon as its webhook accepts deliveries. See below what it waits for.

webhooks-title = Webhooks
webhooks-words = A webhook tells your program at once when something happens, for example that a call ended.
webhooks-none = No webhooks yet
webhooks-none-words = Create one so that your program learns of calls and low credit.
webhooks-make = New webhook
webhooks-make-words = Enter the address of your program, and choose the events that it receives.
webhooks-make-submit = Create webhook
webhooks-call-erased = The call was erased. There is nothing left to send.
webhooks-too-many = An account has at most { $most } webhooks. Delete one first.
webhooks-url = Address
webhooks-url-hint = It begins with https://, such as https://example.com/hooks/dikala.
webhooks-events = Events
webhooks-events-hint = Only what you tick is sent.
webhooks-all-events = All events
webhooks-state = Status
webhooks-on = on
webhooks-off = off
webhooks-disabled = disabled after repeated failures
webhooks-disabled-gone = disabled, because your server answered 410
webhooks-paused = paused by the operator
webhooks-failing = failing
webhooks-off-words = This webhook is off: nothing is sent to it.
webhooks-disabled-words = This webhook was disabled: nothing is sent to it.
webhooks-enable-words = When your server is ready again, enable the webhook. Waiting deliveries are sent then. There are no deliveries for what happened meanwhile: see the list of calls.
webhooks-enable = Enable
webhooks-disable = Disable
webhooks-reason-gone = Your server answered 410 Gone: it accepts no more deliveries.
webhooks-reason-failing = Ten deliveries in a row failed for good over five days, and none arrived.
webhooks-paused-words = The operator of the service paused this webhook. Deliveries wait and none is lost. You need not do anything.
webhooks-failing-words = Your server has been failing since
webhooks-failing-count = { $count ->
    [0] Failed deliveries are retried. After ten that failed for good over five days, the webhook is disabled.
    [one] One delivery failed for good. After ten in a row over five days, the webhook is disabled.
   *[other] { $count } deliveries failed for good. After ten in a row over five days, the webhook is disabled.
}
webhooks-day = The last day
webhooks-attempts = Attempts per hour
webhooks-hour = Hour
webhooks-arrived = delivered
webhooks-tried-again = failed, retried
webhooks-given-up = failed for good
webhooks-made = Created
webhooks-settings = Settings
webhooks-secret = Secret
webhooks-secret-hint = The secret is created for you and shown on the next page, once. Your server uses it to check that an event comes from us.
webhooks-secret-once = Copy the secret now. It is not shown again.
webhooks-secret-words = It signs what we send (X-Service-Signature). Keep it where only your server can read it.
webhooks-secret-standard = For the libraries of Standard Webhooks it is written like this:
webhooks-old-secret = The old secret signs as well until
webhooks-test = Send a test
webhooks-rotate = Replace secret
webhooks-rotate-title = Replace the secret?
webhooks-rotate-words = X-Service-Signature uses the new secret at once. A server that checks it and knows only the old secret refuses events until it has the new one. Refused events are retried meanwhile.
webhooks-rotate-standard = { $hours ->
    [one] webhook-signature carries both signatures for one hour.
   *[other] webhook-signature carries both signatures for { $hours } hours.
}
webhooks-rotate-submit = Replace
webhooks-recover = Resend failed
webhooks-recover-title = Resend failed deliveries
webhooks-recover-words = All deliveries that were created in this time and failed, or that failed for good in it, are resent, the oldest first. Your server may get some events twice.
webhooks-recover-since = From
webhooks-recover-until = Until
webhooks-recover-until-hint = Left empty: until now.
webhooks-recover-submit = Resend
webhooks-recover-too-many = Too many deliveries are being resent already. Try again when that is done.
webhooks-delete = Delete
webhooks-delete-title = Delete this webhook?
webhooks-delete-words = Nothing is sent to this address any more. Waiting deliveries are cancelled.
webhooks-delete-final = You cannot undo this.

events-call-started = a call came in
events-call-answered = the agent answered
events-call-ended = the call ended, with its length, reason and cost
events-call-turn = a turn of the conversation was heard
events-call-transcript = the call summary is ready
events-credits-low = your minutes run low
events-function-called = the agent used one of your functions

## Deliveries

deliveries-title = Deliveries
deliveries-one = Delivery of { $event }
deliveries-filter = Filter deliveries
deliveries-all = All
deliveries-pending = waiting
deliveries-succeeded = delivered
deliveries-failed = failed
deliveries-none = No deliveries
deliveries-none-words = Deliveries are listed here when an event of this webhook happens. Send a test to see one.
deliveries-event = Event
deliveries-status = Status
deliveries-attempts = Attempts
deliveries-made = Created
deliveries-next = Next attempt
deliveries-over = Finished
deliveries-id = ID
deliveries-test = test
deliveries-webhook = Webhook
deliveries-webhook-gone = deleted
deliveries-call = Call
deliveries-resend = Resend
deliveries-soon = in a moment
deliveries-paused = Paused, because the endpoint fails. Next attempt at
deliveries-waiting = { $count ->
    [one] One delivery waits.
   *[other] { $count } deliveries wait.
}
deliveries-headers-first = Nothing was sent yet. These headers are sent with the first attempt, besides those of its number, time and signature.
deliveries-no-attempt = Nothing was sent yet.
deliveries-last-attempts = The last { $count } attempts:
deliveries-attempt = Attempt
deliveries-outcome = Outcome
deliveries-took = Duration
deliveries-answer = Answer
deliveries-answer-show = Show
deliveries-answer-empty = empty
deliveries-error-dns = name not found
deliveries-error-blocked = address not allowed
deliveries-error-connect = no connection
deliveries-error-tls = no secure connection
deliveries-error-timeout = too slow
deliveries-error-reset = connection broken
deliveries-error-invalid = not an HTTP answer
deliveries-error-busy = not sent: we were busy
deliveries-request = What is sent
deliveries-headers = Headers
deliveries-header = Header
deliveries-value = Value
deliveries-signed-now = As in the last attempt; the signatures are those of the present secret.
deliveries-not-signed = As in the last attempt, without the signatures.
deliveries-body = Body
deliveries-body-cut = Only the beginning is shown. The API has all of it.
deliveries-body-gone = The body of this delivery is no longer kept.

## Credit

credits-title = Credit
credits-balance = Balance
credits-held = Reserved for live calls
credits-used = Used
credits-purchased = Purchased
credits-held-words = Minutes reserved for live calls are part of the balance.
credits-low-words = { $minutes ->
    [one] You get a warning when less than one minute is left.
   *[other] You get a warning when less than { $minutes } minutes are left.
}
credits-per-day = Minutes used per day
credits-day = Day
credits-movements = Transactions
credits-none = No transactions yet
credits-none-words = Purchases and the minutes of calls are listed here. Ask the operator of the service for minutes.
credits-when = When
credits-kind = Kind
credits-minutes = Minutes
credits-after = Balance after
credits-what-for = Description
credits-call = Call
credits-csv = Download all as CSV
credits-purchase = purchase
credits-usage = call
credits-refund = refund
credits-adjustment = correction
credits-bonus = bonus

## The audit

audit-title = Audit log
audit-words = Who changed what in this account, when and from where.
audit-none = No entries
audit-none-words = No changes yet, or none that match the filters.
audit-who = Who
audit-what = What
audit-on-what = Object
audit-when = When
audit-where = IP address
audit-from = From
audit-to = Until
audit-anybody = Anybody
audit-anything = Anything
audit-key = Key: { $name }
audit-operator = Operator
audit-cli = Operator, at the command line
audit-former = former member
audit-csv = Download as CSV
audit-agent-create = Agent created
audit-agent-update = Agent changed
audit-agent-delete = Agent deleted
audit-function-create = Function created
audit-function-update = Function changed
audit-function-delete = Function deleted
audit-chat-create = Chat begun
audit-widget-create = Button created
audit-widget-update = Button changed
audit-widget-delete = Button deleted
audit-webhook-create = Webhook created
audit-webhook-update = Webhook changed
audit-webhook-delete = Webhook deleted
audit-webhook-rotate-secret = Webhook secret replaced
audit-webhook-pause = Webhook paused
audit-webhook-resume = Webhook resumed
audit-webhook-recover = Failed deliveries resent
audit-delivery-resend = Delivery resent
audit-call-hangup = Call ended manually
audit-call-transfer = Call transferred manually
audit-call-erase = Personal data deleted from call
audit-call-show-numbers = Whole numbers in SIP messages shown
audit-number-create = Phone number added
audit-number-update = Phone number changed
audit-number-assign = Phone number assigned
audit-number-unassign = Phone number unassigned
audit-number-delete = Phone number removed
audit-key-create = API key created
audit-key-revoke = API key revoked
audit-user-create = Member added
audit-user-role = Role changed
audit-user-name = Name changed
audit-user-remove = Member removed
audit-user-link = One-time link created
audit-user-password = Password set
audit-user-sign-in = Signed in
audit-user-sign-out-everywhere = Signed out everywhere
audit-function-secret-show = Function secret shown
audit-function-secret-rotate = Function secret replaced
audit-credit-add = Credit added
audit-tenant-create = Account created
audit-tenant-update = Account changed
audit-tenant-suspend = Account suspended
audit-tenant-resume = Account resumed
audit-bridge-create = Bridge created
audit-bridge-revoke = Bridge revoked
audit-secrets-rotate = Key of the secrets changed
audit-problem-snooze = Problem snoozed
audit-problem-show = Snoozed problem shown again

## Pictures

chart-table = Figures as a table
chart-nothing = No data for this time.
chart-words = { $all } in total; peak at { $when }: { $most }.

## Home: how it goes

home-setup = First steps
home-is-done = done
home-has-agent = An agent
home-has-number = A phone number
home-has-assigned = The agent answers the number
home-has-minutes = Minutes
home-has-call = The first call
home-step-agent = Create your first agent: give it a name, describe its task, and choose its voice.
home-step-number = Ask the operator of the service for a phone number; it appears under Phone numbers.
home-step-assign = Choose which agent answers your phone number.
home-step-minutes = Ask the operator of the service for minutes; calls are refused until then.
home-step-call = Everything is ready. Call { $number } and talk to your agent.
home-make-agent = Create an agent
home-assign-agent = Assign an agent
home-attention = Needs attention
home-no-credit = There are no minutes left. Calls are refused.
home-low-credit = { $minutes ->
    [one] Only { $minutes } minute is left.
   *[other] Only { $minutes } minutes are left.
}
home-see-credits = See your credit
home-webhook-disabled = The webhook { $url } was disabled, because your server failed for too long or refused it (410).
home-webhook-failing = Deliveries to the webhook { $url } fail. They are retried.
home-see-webhook = See the webhook
home-function-failing = The function { $name } failed in { $failed } of its latest calls.
home-see-function = See the function
home-number-without-agent = No agent answers { $number }. Calls to it are refused.
home-figures = Your calls
home-before-today = { $value } on the same day last week
home-before-days = { $value } in the { $days } days before
home-missed = { $count ->
    [one] Why a call was not answered
   *[other] Why { $count } calls were not answered
}
home-missed-latest = These reasons cover only the latest { $count } unanswered calls.
home-see-failed = See failed calls
home-see-dropped = See all dropped calls, answered ones too
home-busiest = Busiest hours of the last four weeks
home-calls = Calls
home-answered = Answered
home-used = Minutes used
home-running = { $calls } in progress
home-lasts = { $days ->
    [one] about one day at the pace of the last week
   *[other] about { $days } days at the pace of the last week
}
home-lasts-hours = less than a day at the pace of the last week
home-lasts-year = more than a year at the pace of the last week
home-lasts-unknown = none used in the last week
home-lasts-early = an estimate appears three days after your first call
home-per-hour = Calls per hour
home-hour = Hour
home-per-day = Calls per day
home-day = Day
home-series-answered = answered
home-series-missed = not answered
home-latest = Latest calls
home-all-calls = All calls

## Calls

calls-title = Calls
calls-csv = Download as CSV
calls-filter-none = Show all calls
calls-search = Caller's number, or a part of it
calls-search-cut = Only the newest 10,000 calls were searched: type more digits.
calls-period = Period
calls-period-today = Today
calls-period-7 = 7 days
calls-period-30 = 30 days
calls-counted = { $count ->
    [one] { $count } call
   *[other] { $count } calls
}, { $answered } answered, { $minutes } min of talk
calls-counted-many = More than { $count } calls
calls-from-caller = Call from { $caller }, { $time }
calls-facts = Facts
calls-more = More
calls-any = Any
calls-state = Status
calls-from = From
calls-to = To
calls-agent = Agent
calls-number = Phone number
calls-voice = Voice
voice-provider-gemini = Gemini Live
voice-provider-openai = OpenAI Realtime
voice-provider-pipeline = Speech pipeline
voice-provider-scripted = Test voice
calls-turn-latency = answers in { $p50 }, 95 % in { $p95 }
calls-interruptions = { $count ->
    [one] { $count } interruption
   *[other] { $count } interruptions
}
calls-stalls = { $count ->
    [one] { $count } long pause
   *[other] { $count } long pauses
}
calls-channel = Channel
calls-channel-phone = Telephone
calls-channel-whatsapp = WhatsApp
calls-channel-web = Browser
calls-caller = Caller
calls-when = Started
calls-about = About
calls-talk = Length
calls-newest = Go to the newest
calls-none = No calls yet
calls-none-words = Calls appear here by themselves as soon as somebody calls one of your numbers.
calls-none-link = What to do next
calls-none-found = No calls match
calls-none-found-words = Change or clear the filters.
calls-agent-gone = deleted agent
calls-agent-none = no agent
calls-erased = erased
calls-ringing = ringing
calls-answered = in progress
calls-ended = ended
calls-dropped = dropped
calls-failed = failed
calls-seconds = { $seconds } s
calls-minutes-seconds = { $minutes } min { $seconds } s
calls-milliseconds = { $ms } ms

calls-reason-normal = Call hung up
calls-reason-transferred = Transferred to a person
calls-reason-max-duration = Maximum call length reached
calls-reason-credits-exhausted = Minutes used up
calls-reason-requested = Ended by your team
calls-reason-operator = Ended by the operator of the service
calls-reason-silence = Caller said nothing any more
calls-reason-abandoned = Caller hung up while it rang
calls-reason-media-lost = Audio lost
calls-reason-ai-error = AI error
calls-reason-bridge-lost = Connection to the phone line was lost
calls-reason-answer-timeout = Not answered in time
calls-reason-bridge-error = Phone line error
calls-reason-rejected = Rejected by the phone line
calls-reason-no-agent = The number has no agent
calls-reason-agent-inactive = The agent is switched off
calls-reason-number-inactive = The number is switched off
calls-reason-insufficient-credits = No minutes left
calls-reason-concurrency-limit = Too many calls at the same time
calls-reason-tenant-suspended = The account is suspended
calls-caller-hung-up = Caller hung up
calls-agent-hung-up = Agent hung up
calls-ended-by = Ended by { $name }
calls-transferred-by = Transferred by { $name } to { $to }
calls-is-ending = Ending the call…
calls-is-transferring = Transferring the call…

calls-said-caller = Caller
calls-said-agent = Agent
calls-interrupted = interrupted
calls-said-tool = Tool

calls-duration = Duration
calls-of-it-talk = ({ $talk } of talk)
calls-running-for = { $minutes ->
    [0] for less than a minute
    [one] for { $minutes } minute
   *[other] for { $minutes } minutes
}
calls-connection = Connection
calls-connection-good = Good
calls-connection-fair = Fair
calls-connection-poor = Poor
calls-minutes = Minutes
calls-minutes-used = { $used } used
calls-minutes-held = { $held } reserved
calls-ai-cost = AI cost
calls-metadata = Metadata
calls-id = ID
calls-version = version { $version }
calls-draft = tried with settings that were not saved
calls-timeline = Conversation
calls-rang = The call came in
calls-was-answered = The agent answered
calls-was-joined = The caller was connected to a person
calls-over = The call ended
calls-summary = Summary
calls-function = Function
calls-function-ok = answered
calls-arguments = Arguments
calls-result = Result
calls-cut = Only the beginning of this call is shown. The API has all of it.
calls-from-the-ring = From the start
calls-what-followed = What happened next
calls-webhooks = Webhooks
calls-webhooks-delivered = { $count } delivered
calls-webhooks-waiting = { $count } waiting
calls-webhooks-failed = { $count } failed
calls-webhooks-more = And { $count } more, which the pages of the webhooks list.
calls-delivery-pending = waiting
calls-delivery-succeeded = delivered
calls-delivery-failed = failed
calls-webhook-gone = deleted webhook
calls-attempts = { $count ->
    [one] { $count } attempt
   *[other] { $count } attempts
}
calls-next-attempt = next

calls-hangup = End call
calls-hangup-title = End this call?
calls-hangup-words = The caller is cut off within a few seconds, in the middle of the sentence.
calls-transfer = Transfer
calls-transfer-title = Transfer this call
calls-transfer-to = To
calls-transfer-hint = Such as 0812 3456 7890, or with + and country code. The caller is connected to it, and the agent leaves the call.
calls-erase = Delete personal data
calls-erase-title = Delete personal data from this call?
calls-erase-words = This removes the caller's number, the transcript and its summary, arguments and results of functions, and the metadata, also from stored events. Waiting deliveries are cancelled.
calls-erase-stays = The time and cost of the call stay. What your servers already received is yours to delete.
calls-erase-final = You cannot undo this.
calls-is-over = The call has ended already.
calls-still-runs = The call is still in progress. End it first.

## Mails

mails-invitation-subject = { $inviter } invites you to { $tenant }
mails-invitation =
    Hello { $name },

    { $inviter } invites you to the dashboard of { $tenant }. This link signs you in and asks you for a password:

    { $link }

    It works once, until { $until }. If you did not expect this mail, ignore it: nobody can sign in without the link.
mails-low-credit-subject = { $tenant }: { $minutes ->
    [one] { $minutes } minute left
   *[other] { $minutes } minutes left
}
mails-low-credit =
    Hello { $name },

    { $minutes ->
        [one] { $minutes } minute is left for the calls of { $tenant }.
       *[other] { $minutes } minutes are left for the calls of { $tenant }.
    } This mail is sent below { $threshold } minutes. When no minutes are left, calls are refused. The minutes used, day by day:

    { $page }
mails-disabled-webhook-subject = { $tenant }: the webhook to { $host } was disabled
mails-disabled-webhook =
    Hello { $name },

    { $gone ->
        [true] Your server answered that the webhook to { $host } is gone (410), so it was disabled.
       *[other] The webhook to { $host } kept failing and was disabled.
    } Nothing more is sent to your server. The cause, and how to enable the webhook again:

    { $page }
mails-switch-off = You get this mail as an owner. You can turn such mails off here: { $page }

## The button on websites

widget-start = Talk to us
widget-notice = You talk with an AI assistant.
widget-ready = Go ahead, we are listening.
widget-ended = The call is over.
widget-lost = The connection was lost. Please try again.
widget-refused = The microphone is blocked. Allow it beside the page's address, then try again.
widget-press = Press the button to talk.
widget-limit = You have called often within the last hour. Please try again later.
widget-unavailable = We cannot take calls at the moment. Please try again later.
widget-caller = You
widget-agent = Assistant
widget-title = Voice call

## Widgets

widgets-title = Buttons for websites
widgets-words = A button on your website by which visitors talk with an agent, without a telephone.
widgets-none = No buttons yet
widgets-none-words = Create one, and copy one line into your website.
widgets-new = New button
widgets-new-words = Choose who answers, and on which website the button may appear.
widgets-no-agent = Create an agent first
widgets-no-agent-words = A button needs an agent that answers, and you have none yet.
widgets-create = Create button
widgets-too-many = You can have at most { $most } buttons. Delete one first.
widgets-name = Name
widgets-name-hint = For yourself. Visitors do not see it.
widgets-agent = Agent
widgets-origins = Websites
widgets-origins-hint = One address a line, such as https://shop.example.com. The button appears on no other website. Addresses need https, except localhost.
widgets-per-visitor = Calls per visitor and hour
widgets-per-visitor-hint = Counted by network address. People in one office or mobile network may share one.
widgets-concurrent = Visitors who talk at the same time
widgets-color = Colour of the button
widgets-color-hint = As # and six digits or letters from a to f, such as #0f766e.
widgets-texts = Words of the button
widgets-texts-words = Leave a field empty for the built-in words, which follow the visitor's language.
widgets-text-start = Button
widgets-text-notice = Notice below the button
widgets-text-connecting = While it connects
widgets-text-ready = When the agent is on the line
widgets-text-end = Button to hang up
widgets-text-ended = After the call
widgets-text-lost = When the connection is lost
widgets-text-refused = When the microphone is blocked
widgets-text-missing = When there is no microphone
widgets-text-press = When the browser wants a press first
widgets-text-limit = After too many calls
widgets-text-unavailable = When no call is possible
widgets-text-caller = Name of the visitor
widgets-text-agent = Name of the agent
widgets-text-title = Title for screen readers
widgets-text-level = Name of the level meter, for screen readers
widgets-text-log = Name of the conversation, for screen readers
widgets-line = The line for your website
widgets-line-words = Put this line into the pages of your website, before </body>. Website builders call it "custom code" or "embed code".
widgets-line-more = With data-element="#id" the button stands in an element of your page instead of the corner. With data-lang="id" it speaks Indonesian.
widgets-settings = Settings
widgets-delete = Delete
widgets-delete-title = Delete this button?
widgets-delete-words = It disappears from these websites. Calls in progress continue. You cannot undo this.
