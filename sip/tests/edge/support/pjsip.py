"""A phone of PJSIP. It plays `tone.wav`, records `heard.wav`, obeys standard input, and writes what happens to `said`."""

import json
import os
import queue
import sys
import threading

import pjsua2 as pj


class PhoneCall(pj.Call):
    """A call whose audio goes from the tone and to the recording."""

    def __init__(self, phone, call_id=pj.PJSUA_INVALID_ID):
        super().__init__(phone.account, call_id)
        self.phone = phone

    def onCallState(self, prm):
        info = self.getInfo()
        say(info.stateText)
        if info.state == pj.PJSIP_INV_STATE_DISCONNECTED:
            say(f"over {info.lastStatusCode}")
            self.phone.ended.append(self)

    def onCallMediaState(self, prm):
        self.phone.connect(self)

    def onCallSdpCreated(self, prm):
        if not self.phone.options["events"]:
            lines = prm.sdp.wholeSdp.splitlines(keepends=True)
            events = next(line for line in lines if "telephone-event" in line)
            number = events.split(":")[1].split()[0]
            kept = [line for line in lines if f":{number} " not in line]
            prm.sdp.wholeSdp = "".join(kept).replace(f" {number}\r\n", "\r\n")

    def onCallTransferRequest(self, prm):
        # The new call follows from the status 202.
        prm.newCall = self.phone.call = PhoneCall(self.phone)
        self.phone.calls.append(prm.newCall)
        say(f"referred {prm.dstUri.strip('<>')}")

    def onCallTransferStatus(self, prm):
        say(f"transfer {prm.statusCode}")

    def onDtmfDigit(self, prm):
        say(f"key {prm.digit}")


class PhoneAccount(pj.Account):
    def __init__(self, phone):
        super().__init__()
        self.phone = phone

    def onIncomingCall(self, prm):
        self.phone.call = PhoneCall(self.phone, prm.callId)
        self.phone.calls.append(self.phone.call)
        self.phone.call.answer(parameters(pj.PJSIP_SC_RINGING))
        say("rings")


class Phone:
    def __init__(self, options):
        self.options, self.calls, self.ended, self.call = options, [], [], None
        self.endpoint = pj.Endpoint()
        self.endpoint.libCreate()
        config = pj.EpConfig()
        config.uaConfig.threadCnt = 0
        config.uaConfig.mainThreadOnly = True
        config.uaConfig.userAgent = "PJSUA " + self.endpoint.libVersion().full
        config.logConfig.level = config.logConfig.consoleLevel = 0
        config.medConfig.ecTailLen = 0
        config.medConfig.noVad = True
        self.endpoint.libInit(config)
        transport = self.transport()
        self.endpoint.libStart()
        devices = self.endpoint.audDevManager()
        devices.setNullDev()
        codecs = self.endpoint.codecEnum2()
        for codec in codecs:
            wanted = codec.codecId.startswith(options["codec"] + "/")
            self.endpoint.codecSetPriority(codec.codecId, 255 if wanted else 0)
        self.account = PhoneAccount(self)
        self.account.create(self.account_config(transport))
        self.player, self.keypad, self.recorder = pj.AudioMediaPlayer(), pj.ToneGenerator(), pj.AudioMediaRecorder()
        self.player.createPlayer("tone.wav")
        self.keypad.createToneGenerator()
        self.recorder.createRecorder("heard.wav")

    def transport(self):
        config = pj.TransportConfig()
        config.boundAddress = self.options["host"]
        config.tlsConfig.method = pj.PJSIP_TLSV1_2_METHOD
        number = self.endpoint.transportCreate(getattr(pj, "PJSIP_TRANSPORT_" + self.options["transport"]), config)
        say(f"at {self.endpoint.transportGetInfo(number).localName}")
        return number

    def account_config(self, transport):
        options, config = self.options, pj.AccountConfig()
        config.idUri = f"sip:{options['caller']}@{options['host']}"
        config.sipConfig.transportId = transport
        media = config.mediaConfig
        media.transportConfig.boundAddress = options["host"]
        if options["srtp"]:
            media.srtpUse, media.srtpSecureSignaling = pj.PJMEDIA_SRTP_MANDATORY, 1
        if options["timer"]:
            config.callConfig.timerUse = pj.PJSUA_SIP_TIMER_REQUIRED
            config.callConfig.timerSessExpiresSec = config.callConfig.timerMinSESec = 90
        return config

    def connect(self, call):
        """Its audio goes both ways, unless it is held."""
        info = call.getInfo()
        for media in info.media:
            if media.type == pj.PJMEDIA_TYPE_AUDIO and media.status == pj.PJSUA_CALL_MEDIA_ACTIVE:
                audio = call.getAudioMedia(media.index)
                self.player.startTransmit(audio)
                self.keypad.startTransmit(audio)
                audio.startTransmit(self.recorder)

    def obey(self, command, argument=""):
        call = self.call
        if command == "call":
            self.call = call = PhoneCall(self)
            self.calls.append(call)
            call.makeCall(argument, pj.CallOpParam(True))
        elif command == "answer":
            call.answer(parameters(pj.PJSIP_SC_OK))
        elif command == "hold":
            call.setHold(pj.CallOpParam(True))
        elif command == "resume":
            prm = pj.CallOpParam(True)
            prm.opt.flag = pj.PJSUA_CALL_UNHOLD
            call.reinvite(prm)
        elif command == "update":
            call.update(pj.CallOpParam(True))
        elif command in ("event", "info"):
            prm = pj.CallSendDtmfParam()
            prm.digits = argument
            is_event = command == "event"
            prm.method = pj.PJSUA_DTMF_METHOD_RFC2833 if is_event else pj.PJSUA_DTMF_METHOD_SIP_INFO
            call.sendDtmf(prm)
        elif command == "tones":
            # Nobody talks while pressing keys.
            self.player.stopTransmit(call.getAudioMedia(-1))
            self.keypad.playDigits(digits(argument))
        elif command == "transfer":
            call.xfer(argument, pj.CallOpParam(True))
        elif command == "hangup":
            call.hangup(pj.CallOpParam(True))
        else:
            raise ValueError(command)

    def run(self):
        commands = queue.SimpleQueue()
        threading.Thread(target=read, args=[commands], daemon=True).start()
        while True:
            self.endpoint.libHandleEvents(20)
            while not commands.empty():
                command = commands.get()
                if command is None:
                    # Its objects would have to be destroyed in the right order.
                    os._exit(0)
                try:
                    self.obey(*command)
                except pj.Error as error:
                    say(f"refused {command[0]}: {error.reason}")
            for call in self.ended:
                self.calls.remove(call)
            self.ended.clear()


def read(commands):
    for line in sys.stdin:
        commands.put(line.split())
    commands.put(None)


def parameters(status):
    prm = pj.CallOpParam(True)
    prm.statusCode = status
    return prm


def digits(keys):
    vector = pj.ToneDigitVector()
    for key in keys:
        digit = pj.ToneDigit()
        digit.digit, digit.on_msec, digit.off_msec, digit.volume = key, 100, 100, 0
        vector.push_back(digit)
    return vector


def say(words):
    print(words, file=SAID, flush=True)


with open("said", "w", encoding="utf-8") as SAID:
    Phone(json.loads(sys.argv[1])).run()
