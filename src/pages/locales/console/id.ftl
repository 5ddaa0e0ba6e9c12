### Teks konsol dalam bahasa Indonesia. Teks yang juga ada di dasbor tercantum di `../id.ftl`.

## Setiap halaman

console-brand = Dikala pengelola
console-node-of = Node { $node }
console-full-access = Akses penuh
console-view-only = Hanya dapat melihat
console-nothing-changed = Tidak ada yang berubah
console-back = Kembali
console-any = semua
console-previous-page = Halaman sebelumnya
console-next-page = Halaman berikutnya
console-never = belum pernah
console-error-home = Ke ikhtisar
console-foreign-words = Formulir ini sudah kedaluwarsa. Muat ulang halaman, lalu coba lagi.
console-view-only-words = Anda masuk dengan `operator.read_token`, yang tidak mengubah apa pun. Masuk dengan `operator.token` untuk melakukan ini.

## Navigasi, dan judul halamannya

console-nav-activity = Aktivitas
console-nav-customers = Pelanggan
console-nav-system = Sistem
console-overview = Ikhtisar
console-calls = Panggilan
console-webhooks = Webhook
console-functions = Fungsi
console-ledger = Buku besar
console-tenants = Tenant
console-bridges = Jembatan telepon
console-audit = Catatan audit
console-actors = Aktor
console-nodes = Node
console-database = Basis data
console-http = HTTP
console-configuration = Konfigurasi

## Yang baru saja dilakukan

console-done-signed-out = Anda sudah keluar.
console-done-signed-out-here = Anda sudah keluar dari browser ini. Itu belum dapat dicatat: salinan sesi masih diterima di node lain, atau setelah layanan dimulai ulang. Jika mungkin ada yang memegang salinan, ganti tokennya.
console-done-saved = Tersimpan.
console-done-call-ending = Jembatan telepon diminta menutup panggilan.
console-done-webhook-paused = Webhook dijeda. Pengiriman menunggu; tidak ada yang hilang.
console-done-webhook-resumed = Webhook dilanjutkan. Pengiriman berjalan lagi menurut urutannya.
console-done-webhook-recovering = Pengiriman yang gagal dalam rentang waktu itu dikirim ulang di latar belakang.
console-done-delivery-resent = Pengiriman sudah dikirim ulang.
console-done-delivery-resent-later = Pengiriman akan dikirim ulang begitu webhook-nya dapat menerimanya.
console-done-problem-snoozed = Ditunda selama satu jam. Sampai saat itu masalahnya tercantum di bawah.
console-done-problem-shown = Masalah ditampilkan lagi.
console-done-problem-over = Masalah itu sudah selesai.
console-done-ledger-verified = Buku besar sudah diperiksa.
console-done-bridge-made = Jembatan telepon sudah dibuat.
console-done-bridge-revoked = Jembatan telepon sudah dicabut.
console-done-tenant-made = Tenant sudah dibuat. Sekarang tambahkan kunci, pengguna, nomor, dan menit.
console-done-tenant-suspended = Tenant sudah ditangguhkan.
console-done-tenant-resumed = Tenant sudah dipulihkan.
console-done-key-made = Kunci sudah dibuat.
console-done-key-revoked = Kunci sudah dicabut.
console-done-user-made = Pengguna sudah ditambahkan.
console-done-link-made = Tautan sudah dibuat.
console-done-user-removed = Pengguna sudah dihapus.
console-done-booked = Menit sudah ditambahkan.
console-done-number-given = Nomor sudah ditambahkan.
console-done-number-deleted = Nomor sudah dihapus.

## Masuk

console-token = Token
console-token-hint = operator.token, atau operator.read_token untuk melihat saja.
console-token-where = Token ada di konfigurasi layanan.
console-token-wrong = Token ini salah.

## Kata-kata API

console-word-ringing = berdering
console-word-answered = terjawab
console-word-ended = selesai
console-word-dropped = terputus
console-word-failed = gagal
console-word-pending = menunggu
console-word-succeeded = diterima
console-word-failing = sedang gagal
console-word-disabled = dinonaktifkan
console-word-paused = dijeda
console-word-rate = laju
console-word-errors = kesalahan
console-word-p99 = p99
console-word-owner = pemilik
console-word-viewer = pengamat
console-word-purchase = pembelian
console-word-usage = panggilan
console-word-refund = pengembalian
console-word-adjustment = koreksi
console-word-bonus = bonus
console-word-caller = penelepon
console-word-agent = agen
console-word-bridge = jembatan telepon
console-word-tenant = tenant
console-word-operator = pengelola
console-word-system = sistem
console-word-closed = tertutup
console-word-open = terbuka
console-word-sealed = tersegel
console-word-unread = belum dibaca
console-word-elsewhere = di node lain
console-word-default = bawaan

## Waktu

console-seconds = { $count } dtk
console-minutes-short = { $count } mnt
console-hours = { $count } jam
console-days = { $count } hari
console-under-a-minute = kurang dari semenit
console-moment-hint = 2026-01-15, atau 2026-01-15T03:30:00Z

## Nama kolom, keterangan, dan isian di beberapa halaman

console-agent = Agen
console-agent-id = ID agen
console-bridge = Jembatan telepon
console-bridge-id = ID jembatan telepon
console-call = Panggilan
console-created = Dibuat
console-description = Keterangan
console-key = Kunci
console-last-seen = Terakhir terlihat
console-length = Durasi
console-minutes = Menit
console-name = Nama
console-node = Node
console-number = Nomor
console-revoke = Cabut
console-revoke-of = Cabut { $name }
console-revoked = Dicabut
console-is-revoked = dicabut
console-is-active = aktif
console-since = Sejak
console-sort-by = Urutkan menurut
console-started = Mulai
console-status = Status
console-tenant = Tenant
console-tenant-id = ID tenant
console-type = Jenis
console-who = Siapa
console-failed-of = { $count } gagal
console-with-country-code = Dengan + dan kode negara.

## Kolom tabel

console-actor-types-columns = Jenis | Berjalan | Kotak pesan / tertinggi | Per detik | Menunggu p50 / p99 | Pengerjaan p50 / p99 | Kesalahan | Mulai ulang | Hilang
console-event-loops-columns = Thread | Keterlambatan terbesar
console-messages-columns = Pesan | Kotak pesan | Tertinggi | Dikerjakan | Menunggu p50 / p99 | Pengerjaan p50 / p99 | Kesalahan | Hilang
console-instances-columns = Instans | Pesan sekarang | Dikerjakan | Sibuk | Pesan terakhir
console-audit-columns = Waktu (UTC) | Tindakan | Objek | Tenant | Siapa | Dari
console-bridges-columns = Jembatan telepon | Status | Panggilan | Terakhir terlihat | Dibuat
console-calls-columns = Mulai (UTC) | Status | Sebab | Tenant | Dari, ke | Durasi
console-reservations-columns = Dicadangkan | Terpakai | Pemberian | Dibuat | Diselesaikan
console-configuration-columns = Kunci | Nilai | Dari
console-pools-columns = Pool | Dipakai | Menganggur | Belum dibuka
console-deliveries-columns = Dibuat (UTC) | Peristiwa | Status | Percobaan | Berikutnya
console-functions-columns = Fungsi | Tenant | Sirkuit | Semenit terakhir | Total | p50 / p99 | Kesalahan terakhir
console-open-reservations-columns = Panggilan | Tenant | Dicadangkan | Terpakai | Sejak | Node
console-nodes-columns = Node | Alamat | Versi | Mulai | Lease | Panggilan | Jembatan telepon
console-http-columns = Rute | Semenit terakhir | Total | 4xx | p50 / p99
console-transactions-columns = Waktu (UTC) | Jenis | Menit | Saldo | Referensi | Keterangan
console-keys-columns = Kunci | Status | Dibuat | Terakhir dipakai
console-tenants-columns = Tenant | Status | Paket | Menit | Dibuat (UTC)
console-numbers-columns = Label | Nomor | Status | Agen
console-people-columns = Siapa | Peran | Kata sandi | Dibuat
console-webhooks-columns = Endpoint | Tenant | Status | Tertunda | Antrean | Jawaban terakhir

## Ikhtisar

console-problems = Masalah
console-no-problem = Tidak ada.
console-no-problem-words = Panggilan, menit, dan webhook berjalan.
console-critical = { $count } masalah kritis
console-lasts = sudah { $time }
console-amount-backlog = { $count }{ $more ->
    [yes] {" atau lebih"}
   *[no] {""}
} pengiriman menunggu, jawaban terakhir { $answer }
console-amount-backlog-unanswered = { $count }{ $more ->
    [yes] {" atau lebih"}
   *[no] {""}
} pengiriman menunggu
console-amount-refused = yang terakhir { $time } lalu
console-amount-minutes = sisa { $count } mnt
console-snooze = Tunda 1 jam
console-snoozed = { $count } masalah ditunda
console-snoozed-until = ditunda sampai { $time }
console-show-again = Tampilkan lagi
console-figures = Angka
console-ten-minutes = Sepuluh menit terakhir
console-ten-minutes-ago = 10 mnt lalu
console-day = 24 jam terakhir
console-day-ago = 24 jam lalu
console-as-table = Sebagai tabel
console-limit = batas { $limit }
console-min-max = min { $min }, maks { $max }
console-a-minute = per menit
console-now = sekarang
console-ago = { $time } lalu
console-changes = Perubahan terbaru
console-change-started = Node { $node } mulai dengan versi { $version }
console-until-when = Sampai
console-figure-calls_now = Panggilan sekarang
console-figure-calls_per_second = Panggilan yang selesai
console-figure-answered_share = Terjawab
console-figure-ack_p50 = Balasan ke jembatan telepon, p50
console-figure-ack_p99 = Balasan ke jembatan telepon, p99
console-figure-deliveries_per_second = Pengiriman
console-figure-oldest_due = Pengiriman tertunda terlama, tanpa sirkuit terbuka
console-figure-batch_items = Batch buku besar
console-figure-commit_p50 = Commit buku besar, p50
console-figure-commit_p99 = Commit buku besar, p99

# Masalah dan sarannya. Node yang tidak siap punya satu teks untuk setiap pemeriksaan kesiapan.
console-problem-not_ready = { $target ->
    [store] Basis data tidak menjawab, atau tidak menerima penulisan.
    [callRegistry] Aktor yang mengawasi panggilan (call_registry) tidak menjawab.
    [creditLedger] Aktor yang membukukan menit (credit_ledger) tidak menjawab.
    [webhookDispatcher] Aktor yang mengirim webhook (webhook_dispatcher) tidak menjawab.
    [lease] Lease node ini hilang.
    [durability] Bila PostgreSQL mati mendadak, commit yang sudah dikonfirmasi hilang.
    [schema] Skema basis data terlalu baru untuk versi ini.
    [running] Layanan sedang berhenti.
   *[other] { $summary }
}
console-problem-not_ready-action = { $target ->
    [store] Periksa apakah basis data berjalan dan dapat dihubungi, apakah disknya penuh, dan apakah basis data hanya dapat dibaca.
    [callRegistry] Simpan log, lalu mulai ulang node ini; yang sudah dikonfirmasi tidak hilang.
    [creditLedger] Simpan log, lalu mulai ulang node ini; yang sudah dikonfirmasi tidak hilang.
    [webhookDispatcher] Simpan log, lalu mulai ulang node ini; yang sudah dikonfirmasi tidak hilang.
    [lease] Basis data tidak memperpanjangnya tepat waktu, dan node lain mungkin sudah mengambil alih panggilannya. Node pulih sendiri begitu basis data menjawab.
    [durability] Nyalakan fsync, full_page_writes, dan synchronous_commit; `dikala check` menyebutkan yang mati.
    [schema] Node menyerahkan panggilannya lalu berhenti; pasang versi yang lebih baru.
    [running] Node ini tidak menerima panggilan baru.
   *[other] { $action }
}
console-problem-ledger_differences = Pembukuan tidak cocok di { $count } tempat.
console-problem-ledger_differences-action = Jalankan `dikala ledger verify`; jangan jual menit kepada tenant yang disebutnya sampai sebabnya diketahui.
console-problem-clock_off = Jam mesin ini { $time } { $way ->
    [ahead] lebih cepat
   *[behind] lebih lambat
} daripada jam layanan.
console-problem-clock_off-action = Tagihan dan tenggat tidak terpengaruh; tanda tangan webhook memakai jam mesin. Betulkan jam itu (NTP). Bila jam layanan yang salah, hentikan semua node pada saat sepi, lalu jalankan lagi.
console-problem-database_clock_off = Jam basis data { $time } { $way ->
    [ahead] lebih cepat
   *[behind] lebih lambat
} daripada jam layanan.
console-problem-database_clock_off-action = Tagihan dan tenggat tidak terpengaruh: semua node tetap memakai waktu bersama. Betulkan jam mesin basis data (NTP). Bila jam layanan yang salah, hentikan semua node pada saat sepi, lalu jalankan lagi.
console-problem-actor_restarted = Sebuah aktor mengalami panic { $time } lalu dan sudah dimulai ulang: { $target }.
console-problem-actor_restarted-action = Aktor itu sudah dimulai ulang, tetapi ini bug: cari `an actor panicked` di log dan laporkan.
console-problem-event_loop_blocked = Event loop pada thread { $target } terhambat selama { $time }.
console-problem-event_loop_blocked-action = Periksa apakah mesin kekurangan waktu prosesor. Bila hanya satu thread yang terlambat, laporkan beserta lognya.
console-problem-mailbox_full = Kotak pesan { $target } penuh: { $count } pesan menunggu, dan pengirim menunggu atau ditolak.
console-problem-mailbox_full-action = { console-problem-mailbox_backlog-action }
console-problem-mailbox_backlog = { $count } pesan untuk { $target } menunggu.
console-problem-mailbox_backlog-action = Lihat di halaman jenis aktor itu pesan mana yang lama dikerjakan, dan apakah thread atau basis datanya lambat.
console-problem-messages_lost = { $rate } pesan per detik ke { $target } hilang: pengirim berhenti menunggu.
console-problem-messages_lost-action = { console-problem-mailbox_backlog-action }
console-problem-acknowledgements_slow = Jembatan telepon menunggu { $time } untuk balasan tentang panggilan.
console-problem-acknowledgements_slow-action = Penelepon tidak mendengar apa-apa. Periksa apakah commit lambat, thread terhambat, atau prosesor sibuk.
console-problem-commits_slow = Commit buku besar memakan waktu { $time }.
console-problem-commits_slow-action = Periksa disk basis data, dan program lain yang menulis ke sana.
console-problem-requests_fail = { $share }% dari semua permintaan gagal.
console-problem-requests_fail-action = Lihat di halaman HTTP rute mana yang gagal dan dengan status apa; 503 biasanya berarti basis data tidak dapat dihubungi.
console-problem-bridges_gone = Tidak ada jembatan telepon yang tersambung; tanda hidup terakhir { $time } lalu.
console-problem-bridges_gone-action = Tidak ada panggilan yang masuk lewat soket. Periksa jembatan telepon dan jaringan ke sana.
console-problem-disk_low = Sisa ruang di disk basis data { $free } MiB.
console-problem-disk_low-action = Kosongkan ruang, atau pindahkan basis data ke disk yang lebih besar. Bila disk penuh, tidak ada panggilan yang diterima.
console-problem-deliveries_late = Sebuah pengiriman sudah tertunda selama { $time } walaupun endpoint-nya tidak gagal.
console-problem-deliveries_late-action = Periksa apakah percobaan dilakukan, dan apakah hasilnya dapat disimpan.
console-problem-deliveries_not_made = { $count } percobaan pengiriman tidak dapat dilakukan oleh layanan ini.
console-problem-deliveries_not_made-action = Percobaan itu diulang. Periksa apakah proses ini sudah mencapai batas berkas terbuka (`process_open_fds`).
console-problem-secrets_sealed = Rahasia { $count } webhook tidak dapat dibuka dengan secrets.key.
console-problem-secrets_sealed-action = Mulai layanan dengan kunci yang menyegelnya; `dikala check` menyebutkan webhook itu.
console-problem-endpoint_hangs = Endpoint milik { $tenant } tidak menjawab: webhook { $target }.
console-problem-endpoint_hangs-action = Percobaan diulang, dan webhook lain tidak terpengaruh. Beri tahu tenant bila ini berlanjut.
console-problem-webhook_failing = Webhook { $target } milik { $tenant } gagal terus.
console-problem-webhook_failing-action = Peristiwa tidak sampai ke tenant: lihat jawaban terakhir, lalu beri tahu tenant. Pengiriman yang gagal dapat dikirim ulang.
console-problem-webhook_disabled = Webhook { $target } milik { $tenant } dinonaktifkan karena terus gagal.
console-problem-webhook_disabled-action = Tenant tidak menerima peristiwa: minta tenant memperbaiki server dan mengaktifkan webhook. Setelah itu pengiriman yang gagal dapat dikirim ulang.
console-problem-webhook_paused = Webhook { $target } milik { $tenant } masih dijeda.
console-problem-webhook_paused-action = Pengirimannya menunggu sampai webhook dilanjutkan.
console-problem-more_webhooks = Masih ada webhook lain yang gagal, dinonaktifkan, atau dijeda selain yang tercantum.
console-problem-more_webhooks-action = Periksa jaringan mesin ini (DNS, firewall, sertifikat). Halaman Webhook mencantumkan semuanya.
console-problem-credit_refused = { $tenant } tidak punya menit: { $count } panggilan ditolak dalam satu jam.
console-problem-credit_refused-action = Penelepon ke tenant ini ditolak. Beri tahu tenant, atau tambahkan menit.
console-problem-credit_short = Menit { $tenant } habis dalam sekitar { $time }, menurut pemakaian seminggu terakhir.
console-problem-credit_ends = Menit { $tenant } habis dalam waktu kurang dari satu jam, menurut pemakaian seminggu terakhir.
console-problem-credit_ends-action = Beri tahu tenant, atau tambahkan menit. Tanpa menit, panggilan ditolak.
console-problem-credit_short-action = Beri tahu tenant, atau tambahkan menit. Tanpa menit, panggilan ditolak.
console-problem-tenant_floods = { $tenant } melampaui batas lajunya: { $count } permintaan ditolak dalam semenit.
console-problem-tenant_floods-action = Batas itu bekerja, dan yang lain tetap dilayani. Beri tahu tenant, atau naikkan rateLimit-nya.

## Aktor

console-event-loops = Event loop
console-messages = Pesan
console-messages-to = Pesan ke { $kind }
console-actor-types = Jenis aktor
console-running = Berjalan
console-mailbox = Kotak pesan
console-highest-of = tertinggi { $count }
console-messages-per-second = Pesan per detik
console-errors = Kesalahan
console-restarts = Mulai ulang
console-lost = Hilang
console-busiest = Tersibuk
console-busiest-instances = Instans tersibuk
console-none-running = Tidak ada yang berjalan.
console-none-running-words = Aktor dimulai bila ada pekerjaan untuknya.
console-doing = { $message } selama { $time }
console-waits = menunggu pesan
console-message-ago = { $message } { $time } lalu
console-call-granted = { $status }, { $minutes } mnt diberikan
console-next-deadline = melihat jam dalam { $time }

## Catatan audit

console-actor-hint = operator, cli, atau id pengguna atau kunci.
console-action = Tindakan
console-at-or-after = Pada atau setelah
console-before = Sebelum
console-no-entries = Tidak ada catatan
console-no-entries-words = Belum ada perubahan, atau tidak ada yang cocok dengan filter.

## Jembatan telepon

console-create-bridge = Buat jembatan telepon
console-no-bridges = Tidak ada jembatan telepon
console-no-bridges-words = Buat satu. Jembatan telepon masuk dengan tokennya.
console-connected = tersambung
console-not-connected = tidak tersambung
console-built-in-bridge = Jembatan telepon bawaan
console-built-in-words = Hitungan jembatan telepon di proses ini sejak dimulai; semuanya juga ada di `/metrics`.
console-active-calls = Panggilan aktif
console-joined-calls = { $calls }, { $joined } di antaranya tersambung ke petugas
console-incoming-calls = Panggilan masuk
console-calls-to-people = Panggilan ke petugas
console-outcomes = { $answered } terjawab, { $refused } ditolak, { $cancelled } dibatalkan, { $failed } gagal
console-answer-times = INVITE sampai jawaban, p50 / p99
console-barge-in-times = Penyelaan sampai diam, p50 / p99
console-trunks = Trunk terdaftar
console-packets-in = Paket dari penelepon, panggilan yang selesai
console-packets-in-of = { $received } diterima, { $lost } hilang, { $late } terlambat
console-packets-out = Paket ke penelepon
console-packets-out-of = { $sent }, { $late } terlambat lebih dari 20 ms
console-interruptions = Penyelaan
console-interruptions-of = { $pauses }, model disela { $interruptions } kali
console-model-connections = Sambungan model
console-model-connections-of = { $again } disambungkan lagi, { $lost } panggilan kehilangan suaranya
console-model-cost = Biaya model
console-copy-token = Salin token sekarang. Token tidak ditampilkan lagi.
console-revoke-bridge = Cabut jembatan telepon ini
console-revoke-bridge-title = Cabut jembatan telepon ini?
console-revoke-bridge-words = Token { $name } ditolak mulai sekarang, dan soketnya ditutup dalam sedetik.
console-revoke-bridge-calls = Ada { $calls } panggilan padanya, yang tidak dilayani lagi.
console-revoke-bridge-final = Ini tidak dapat dibatalkan. Buat jembatan telepon lain untuk token lain.

## Panggilan

console-number-called = Nomor yang ditelepon
console-caller = Penelepon
console-started-from = Mulai pada atau setelah
console-started-before = Mulai sebelum
console-from-to = Dari, ke
console-channel = Saluran
console-no-calls = Tidak ada panggilan
console-no-calls-words = Tidak ada panggilan aktif di node ini, atau tidak ada yang cocok dengan filter.
console-end = Akhiri
console-end-of = Akhiri panggilan { $call }
console-bridge-call-id = id dari jembatan telepon: { $id }
console-events = Peristiwa
console-version = versi { $version }
console-answered = Terjawab
console-joined = Disambungkan ke petugas
console-voice = Suara
console-turn-latency = Waktu sampai dijawab
console-turn-latency-of = median { $p50 } ms, 95% di bawah { $p95 } ms
console-stalls = Jeda panjang
console-caller-interruptions = Selaan penelepon
console-last-heartbeat = Tanda hidup terakhir
console-reason = Sebab
console-reason-requested = Diakhiri oleh tenant
console-reason-operator = Diakhiri oleh operator
console-reason-suspended = Tenant ditangguhkan
console-failure = Kegagalan
console-ended-by-column = Diakhiri oleh
console-call-actor = Aktor
console-call-deliveries-of = { $succeeded } terkirim, { $pending } menunggu, { $failed } gagal permanen
console-timeline = Lini masa
console-timeline-words = { $day }. Waktu dihitung sejak panggilan berdering.
console-as-text = Sebagai teks, untuk diteruskan
console-no-bridge-messages = Tidak ada pesan jembatan telepon di sini: node lain yang membacanya, node ini dimulai ulang, atau panggilan yang lebih baru menggantikannya.
console-source-sip = SIP
console-source-bridge = Jembatan
console-source-call = Panggilan
console-source-request = Permintaan
console-source-ledger = Buku besar
console-source-function = Fungsi
console-source-event = Peristiwa
console-source-delivery = Pengiriman
console-step-message = { $kind }, balasan setelah { $time }
console-step-message-refused = { $kind } ditolak setelah { $time }: { $code }
console-step-rang = Berdering
console-step-ended = Berakhir: { $why }
console-step-asked-end = { $who } meminta panggilan diakhiri
console-step-asked-transfer = { $who } meminta panggilan dialihkan ke { $to }
console-step-reserved = Menit pertama dicadangkan
console-step-settled = { $minutes } mnt dibukukan, diperpanjang { $grants } kali
console-step-balance = saldo { $minutes } mnt
console-step-function = { $name }: berhasil dalam { $ms } ms
console-step-function-failed = { $name }: { $fault } dalam { $ms } ms
console-step-event = { $kind } ditulis
console-step-event-after = { $kind } ditulis { $ms } ms setelah penyebabnya
console-step-attempt = { $kind }, percobaan { $number }: { $outcome } dalam { $ms } ms
console-step-due = { $kind }: percobaan berikutnya
console-ended-by = oleh { $who }
console-end-call = Akhiri panggilan ini
console-end-call-title = Akhiri panggilan ini?
console-end-call-words = Jembatan telepon diminta menutup { $number }. Bila tidak ada konfirmasi, panggilan dicatat selesai setelah sepuluh detik.
console-end-call-reason = Panggilan berakhir dengan sebab `operator`; tenant diberi tahu, dan menit yang sudah dimulai dibayar.
console-last-grant = (yang terakhir)
console-grant-refused = ditolak: { $refusal }
console-unsettled = terbuka
console-media = Media
console-media-columns = Sisi | Arah | Kodek | Paket | Hilang | Terlambat | Jitter p95 | Bolak-balik | Ditutupi | MOS
console-no-media = Tidak ada angka di sini: panggilan tanpa media, jembatan teleponnya berjalan di tempat lain atau dimulai ulang, atau tempatnya dipakai panggilan yang lebih baru.
console-leg-caller = Penelepon
console-leg-person = Orang
console-received = diterima
console-sent = dikirim
console-sip-words = Nomor dalam pesan SIP disamarkan. `dikala call trace` menampilkan pesan lengkap dan menulis rekaman untuk Wireshark.
console-sip-forgotten = { $count } pesan yang lebih lama tidak disimpan lagi.
console-no-sip = Tidak ada pesan SIP di sini: jembatan telepon yang memegang panggilan ini berjalan di tempat lain atau dimulai ulang, atau panggilan ini bukan salah satu dari 10.000 terakhirnya.
console-credit = Saldo
console-no-reservation = Tidak ada cadangan: panggilan ditolak sebelum memerlukan saldo, atau catatannya sudah dihapus.
console-reservations = Cadangan

## Konfigurasi

console-key-hint = Atau sebagian dari kunci.
console-configuration-words = Konfigurasi node ini saat dimulai. Rahasia disamarkan.
console-no-keys-match = Tidak ada kunci yang cocok
console-no-keys-match-words = Tidak ada kunci yang memuat teks ini.

## Basis data

console-size = Ukuran
console-migrations = Migrasi
console-commit-times = Commit buku besar, p50 / p99
console-pools = Pool

## Pengiriman

console-deliveries = Pengiriman
console-webhook-id = ID webhook
console-deliveries-words = Yang terbaru di atas: 100.000 terbaru dari semua webhook.
console-no-deliveries = Tidak ada pengiriman
console-no-deliveries-words = Belum ada, atau tidak ada yang cocok dengan filter.
console-test = (uji coba)
console-is-due = segera
console-resend = Kirim ulang
console-resend-of = Kirim ulang { $delivery }
console-delivery = Pengiriman
console-delivery-of = Pengiriman { $event }
console-attempts = Percobaan
console-attempts-columns = Percobaan | Mulai (UTC) | Jawaban | Lama
console-no-attempts = Belum ada percobaan yang tercatat.
console-finished = Selesai
console-next-delivered = Terkirim. Tidak ada lagi yang dilakukan.
console-next-given-up = Gagal total: tidak dicoba lagi kecuali dikirim ulang.
console-next-webhook-gone = Webhook-nya sudah dihapus: tidak dicoba lagi.
console-next-disabled = Menunggu: webhook-nya dinonaktifkan. Tenant harus mengaktifkannya.
console-next-paused = Menunggu: webhook-nya dijeda sejak { $time }.
console-next-probe = Menunggu: server terus gagal, jadi sirkuitnya terbuka. Server dicoba lagi pada { $time }.
console-next-at = Percobaan berikutnya pada { $time }.
console-next-due = Jatuh tempo: percobaan berikutnya dilakukan segera setelah antreannya punya tempat.

## Fungsi

console-functions-words = Yang dipanggil node ini sejak dimulai; 1.000 fungsi terakhir diingat. Di atas: yang endpoint-nya sedang tidak dihubungi.
console-fault-ago = { $fault }, { $time } lalu
console-no-functions = Tidak ada fungsi
console-no-functions-words = Tidak ada yang dipanggil di node ini sejak dimulai, atau tidak ada yang cocok dengan filter.
console-circuit-half-open = setengah terbuka
console-circuit-until = sampai { $time }

## HTTP

console-http-words = Permintaan ke kedua listener node ini sejak dimulai, menurut rute. Waktu dihitung sampai header jawaban.
console-no-requests = Tidak ada permintaan
console-no-requests-words = Tidak ada permintaan sejak node ini dimulai.

## Pencarian

console-search = Pencarian
console-search-label = ID, nomor telepon, atau nama tenant
console-search-hint = ID lengkap tenant, panggilan, nomor, jembatan telepon, webhook, pengiriman, peristiwa, agen, pengguna, kunci, dan permintaan; awal nomor telepon tenant; nomor lengkap penelepon; sebagian nama tenant.
console-search-none = Tidak ditemukan
console-search-none-words = Tidak ada id, nomor telepon, atau nama tenant yang cocok. Catatan yang sudah dihapus dan permintaan yang tidak mengubah apa pun tidak ditemukan.
console-search-more = Masih ada yang lain. Ketik lebih banyak.
console-calls-from = Panggilan dari
console-user = Pengguna
console-event = Peristiwa
console-request = Permintaan

## Buku besar

console-last-verification = Pemeriksaan terakhir
console-oldest-reservations = Cadangan terbuka terlama
console-open-reservations = Cadangan terbuka
console-open-reservations-of = { $holds }, { $minutes } menit
console-differences = Selisih
console-differences-of = { $count } akun dan cadangan terbuka yang tidak cocok pada pemeriksaan terakhir, paling lama semenit lalu
console-checked = Diperiksa
console-checked-of = { $items } butir dalam { $batches } transaksi sejak dimulai
console-not-verified = Belum ada sejak node ini dimulai, atau sedang berjalan.
console-verified = { $time }: { $tenants } tenant, { $transactions } transaksi, { $holds } cadangan.
console-books-right = pembukuan benar
console-books-wrong = { $count } selisih
console-first-differences = { $count } yang pertama; semuanya ada di `GET /operator/v1/ledger`.
console-verify-tenant-hint = Kosongkan untuk memeriksa semua tenant.
console-verify-words = Menghitung ulang setiap saldo dari transaksi dan cadangannya. Dengan banyak tenant ini dapat memakan beberapa menit.
console-verify = Periksa
console-verification-running = Buku besar sedang diperiksa; tunggu sampai selesai.
console-no-open-reservations = Tidak ada: tidak ada panggilan aktif.
console-one-right = Pembukuan tenant ini benar: { $count } transaksi.
console-one-difference = Satu selisih dalam pembukuan tenant ini: { $first }
console-one-differences = { $count } selisih dalam pembukuan tenant ini, yang pertama: { $first }

## Node

console-this-node = (yang ini)

## Tenant

console-create-tenant = Buat tenant
console-name-or-id = Nama atau id
console-no-tenants = Tidak ada tenant
console-no-tenants-words = Belum ada, atau tidak ada yang cocok dengan pencarian.
console-plan = Paket
console-is-suspended = ditangguhkan
console-is-low = menipis
console-plan-hint = Kosongkan untuk nilai paket.
console-threshold-hint = { $minutes } bila dikosongkan; di bawahnya tenant diberi tahu.
console-requests-a-minute = Permintaan per menit
console-low-credit = Batas saldo menipis, dalam menit
console-calls-at-once = Panggilan bersamaan
console-plans-own = dari paket
console-of-plan = { $value } ({ $plan })
console-unlimited = tanpa batas
console-calls-now = Panggilan saat ini
console-calls-today = Panggilan hari ini
console-answered-today = Terjawab hari ini
console-minutes-left = Sisa menit
console-a-day-last-week = { $count } per hari dalam 7 hari terakhir
console-last-week = { $share } dalam 7 hari terakhir
console-calls-are-refused = panggilan ditolak
console-minutes-unused = tidak terpakai dalam 7 hari terakhir
console-minutes-too-early = terpakai kurang dari 3 hari
console-minutes-last-hours = kurang dari sehari dengan laju ini
console-minutes-last = sekitar { $days } hari dengan laju ini
console-no-minutes-left = Menit habis: setiap panggilan ditolak.
console-webhook-is = Webhook { $state }:
console-function-fails = Fungsi { $name } gagal { $failed } dari 10 kali terakhir.
console-reasons = Panggilan yang gagal atau terputus
console-reasons-columns = Sebab | Satu jam terakhir | 24 jam terakhir
console-reasons-latest = Hanya 300 panggilan gagal dan 300 panggilan terputus terbaru yang dihitung.
console-see-failed = Panggilan gagal
console-see-dropped = Panggilan terputus
console-change = Ubah
console-resume = Pulihkan
console-suspend = Tangguhkan
console-suspend-tenant = Tangguhkan tenant ini
console-suspend-tenant-title = Tangguhkan tenant ini?
console-suspend-tenant-words = Permintaan dan panggilan baru { $name } ditolak mulai sekarang, dan orang-orangnya dikeluarkan. Panggilan yang sedang berlangsung berjalan terus, dan tidak ada yang dihapus.
console-suspend-tenant-back = Tenant dapat dipulihkan kapan saja.

## Menit tenant

console-balance = Saldo
console-balance-of = { $minutes } menit
console-held = Dicadangkan untuk panggilan
console-purchased = Total dibeli
console-used-total = Total terpakai
console-add-minutes = Tambah menit
console-add = Tambah
console-transactions = Transaksi
console-minutes-hint = Negatif hanya untuk koreksi.
console-reference = Referensi
console-reference-hint = Satu referensi hanya dibukukan sekali, walaupun dikirim lagi.
console-none-yet = Belum ada.
console-reference-taken = Referensi ini sudah dipakai untuk pembukuan lain tenant ini; beri setiap pembukuan referensinya sendiri.
console-minutes-short-of = Tenant ini hanya punya { $minutes } menit yang tersedia; menit yang dicadangkan panggilan tidak dapat diambil.
console-of-call = panggilan

## Kunci tenant

console-keys = Kunci
console-no-keys = Tidak ada kunci
console-no-keys-words = Program tenant ini memerlukan kunci untuk memakai API.
console-create-key = Buat kunci
console-key-name-hint = Misalnya: Kasir Bandung.
console-copy-key = Salin kunci sekarang. Kunci tidak ditampilkan lagi.
console-revoke-key = Cabut kunci ini
console-revoke-key-title = Cabut kunci ini?
console-revoke-key-words = Permintaan dengan { $name } ({ $prefix }) ditolak mulai permintaan berikutnya.
console-revoke-key-final = Ini tidak dapat dibatalkan. Buat kunci lain dahulu bila masih diperlukan.

## Nomor tenant

console-numbers = Nomor
console-label = Label
console-no-numbers = Tidak ada nomor
console-no-numbers-words = Penelepon belum dapat menghubungi tenant ini.
console-add-a-number = Tambah nomor
console-add-number = Tambah nomor
console-is-off = mati
console-number-exists = Nomor ini sudah ada.
console-change-number = Ubah nomor
console-takes-calls = Menerima panggilan
console-move-number-hint = ID tenant lain memindahkan nomor ke sana, tanpa agennya.
console-delete = Hapus
console-all-numbers = Semua nomor tenant ini
console-delete-number = Hapus nomor ini
console-delete-number-title = Hapus nomor ini?
console-delete-number-words = Panggilan ke { $number } ({ $label }) ditolak mulai sekarang. Panggilannya yang lama tetap ada.

## Orang-orang tenant

console-people = Orang
console-role = Peran
console-password-set = sudah ada
console-password-unset = belum ada
console-no-users = Tidak ada pengguna
console-no-users-words = Tambahkan pengguna. Tautan yang lalu ditampilkan membuka dasbor.
console-add-user = Tambah pengguna
console-email-taken = Alamat ini sudah dipakai seseorang; berikan yang lain.
console-copy-link = Salin tautan sekarang. Tautan tidak ditampilkan lagi.
console-copy-link-words = Tautan berlaku sekali, dalam 30 menit. Kirim secara pribadi kepada pengguna ini.
console-link = Tautan
console-email = Email
console-user-name-hint = Kosongkan untuk memakai bagian sebelum @.
console-login-link = Tautan masuk
console-login-link-of = Tautan masuk untuk { $name }
console-remove = Hapus
console-remove-of = Hapus { $name }
console-remove-user = Hapus pengguna ini
console-remove-user-title = Hapus pengguna ini?
console-remove-user-words = { $name } ({ $email }) dikeluarkan dari semua perangkat dan tidak dapat masuk lagi. Kunci yang dibuat orang ini tetap ada.

## Webhook

console-webhook = Webhook
console-webhooks-words = Antrean adalah antrean endpoint di memori node ini.
console-all-deliveries = Semua pengiriman
console-endpoint = Endpoint
console-due = Tertunda
console-queue = Antrean
console-last-answer = Jawaban terakhir
console-no-webhooks = Tidak ada webhook
console-no-webhooks-words = Belum ada tenant yang membuatnya, atau tidak ada yang cocok dengan filter.
console-due-or-more = { $count } atau lebih
console-due-for = selama { $time }
console-queue-idle = menganggur
console-queue-of = { $state } { $inflight } sedang dikirim, { $waiting } menunggu
console-probed = dicoba { $time }
console-answer-of = { $answer } dalam { $ms } ms, { $time } lalu
console-status-since = sejak { $time }
console-failed-in-row = Gagal berturut-turut
console-pause-webhook = Jeda
console-resume-webhook = Lanjutkan
console-recover = Kirim ulang yang gagal
console-recover-title = Kirim ulang yang gagal
console-recover-hint = 2026-01-15T03:30:00Z, atau 2026-01-15.
console-recover-until-hint = Kosongkan untuk sampai sekarang.
console-recover-words = Semua pengiriman yang akhirnya gagal dalam rentang waktu itu dikirim ulang di latar belakang, menurut urutannya.
console-to-webhook = Kembali ke webhook
console-calls-reach = Dari semua tenant hanya 100.000 panggilan selesai terbaru yang dicari. Isi tenant untuk menemukan yang lebih lama.
