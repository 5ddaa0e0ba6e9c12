### Teks dasbor, email, dan kedua sisi dalam bahasa Indonesia. Nama pesan diawali dengan halaman atau jenis hal tempatnya.

## Setiap halaman

page-skip = Langsung ke isi
page-menu = Menu
page-more = Lainnya
page-close = Tutup
page-first = Halaman utama
page-way = Jalur halaman
page-sign-out = Keluar
page-save = Simpan
page-unsaved = Belum disimpan
page-changed-meanwhile = Orang lain sudah menyimpan perubahan di sini setelah Anda membuka halaman ini. Perubahan itu belum tertimpa. Buka halaman ini di tab baru untuk membandingkan, atau simpan lagi untuk menggantinya dengan isian Anda.
page-cancel = Batal
page-actions = Tindakan
page-optional = opsional
page-show = Tampilkan
page-hide = Sembunyikan
page-copy = Salin
page-copied = Tersalin
page-errors = Perbaiki { $count } isian untuk melanjutkan:
page-filter = Filter
page-search = Cari
page-filter-submit = Tampilkan
page-look-only = Anda bisa melihat pengaturan ini, tetapi tidak bisa mengubahnya. Minta kepada pemilik: { $owners }.
page-look-nobody = Anda bisa melihat pengaturan ini, tetapi tidak bisa mengubahnya. Akun ini tidak punya pemilik: tanyakan kepada pengelola layanan.
page-yes = Ya
page-no = Tidak
page-nothing = –
page-filter-none = Tampilkan semua
page-paging = Halaman
page-newer = Terbaru
page-older = Lebih lama

## Live parts of a page

live-on = Langsung – Jeda
live-paused = Dijeda – Lanjutkan
live-lost = Tidak langsung – menyambung kembali
live-new-one = 1 panggilan baru ↑
live-new-many = # panggilan baru ↑
live-new-call = Ada panggilan masuk.

## Navigasi

dashboard-brand = Dikala
nav-work = Ikhtisar
nav-home = Beranda
nav-calls = Panggilan
nav-settings = Pengaturan
nav-keys = Kunci API
nav-function-secret = Rahasia fungsi
nav-members = Anggota
nav-account = Akun Anda

## Yang baru saja dilakukan

done-saved = Tersimpan.
done-signed-out = Anda sudah keluar.
done-password-set = Kata sandi Anda sudah dibuat. Semua browser lain sudah dikeluarkan.
done-invited = Undangan sudah dibuat. Teruskan tautan di bawah ini.
done-invited-by-mail = Undangan sudah dibuat dan juga akan dikirim lewat email. Tautan di bawah ini juga bisa diteruskan.
done-link-made = Tautan baru sudah dibuat. Teruskan kepada orangnya.
done-link-mailed = Tautan baru sudah dibuat dan juga akan dikirim lewat email. Tautan itu juga bisa diteruskan.
done-role-changed = Peran sudah diubah.
done-member-removed = Anggota sudah dihapus dan dikeluarkan dari semua perangkat.
done-call-erased = Data pribadi dalam panggilan ini sudah dihapus.
done-key-made = Kunci sudah dibuat.
done-key-revoked = Kunci sudah dicabut. Mulai sekarang permintaan dengan kunci itu ditolak.
done-secret-rotated = Rahasia sudah diganti. Yang lama tidak menandatangani apa pun lagi.

## Yang tidak berhasil

error-home = Ke beranda
error-request-id = Untuk layanan bantuan kami:
error-not-found = Halaman tidak ditemukan
error-not-found-words = Alamatnya salah, atau halamannya sudah dihapus.
error-too-large = Data terlalu besar
error-too-large-words = Yang Anda kirim lebih dari 768 KiB. Persingkat, lalu coba lagi.
error-too-many = Terlalu banyak permintaan
error-too-many-words = Tunggu sebentar, lalu coba lagi.
error-busy = Sedang tidak tersedia
error-busy-words = Layanan belum dapat menjawab saat ini. Tidak ada yang hilang; coba lagi beberapa detik lagi.
error-suspended = Akun ini ditangguhkan
error-suspended-words = Tanyakan sebabnya dan langkah selanjutnya kepada pengelola layanan.
error-internal = Ada kesalahan di pihak kami
error-internal-words = Coba lagi. Jika terulang, beri tahu pengelola layanan.
error-refused = Tidak dapat dilakukan
error-export-running = Sebuah berkas masih dibuat untuk akun ini, atau untuk banyak akun lain. Ambil berkas ini setelah itu selesai.
error-refused-words = Permintaan ditolak:
error-foreign = Formulir ini sudah kedaluwarsa
error-foreign-words = Tidak ada yang berubah. Formulir ini berasal dari situs lain, atau dari halaman yang dibuka sebelum Anda masuk. Kembali, muat ulang halaman, lalu kirim lagi.
error-outdated-words = Tidak ada yang berubah. Anda masuk lagi setelah membuka halaman itu. Isian Anda masih tersimpan:
error-outdated-send = Kirim lagi
error-signed-out = Anda sudah keluar
error-signed-out-words = Tidak ada yang berubah, dan isian Anda masih tersimpan di halaman ini. Masuk lagi di tab baru, lalu kembali ke sini dan tekan tombol ini.
error-signed-out-link = Masuk di tab baru
error-viewer = Anda hanya dapat melihat
error-viewer-words = Tidak ada yang berubah. Peran Anda adalah pengamat; minta pemilik akun ini untuk melakukannya, atau untuk menjadikan Anda pemilik.
error-link = Tautan ini tidak berlaku lagi
error-link-words = Tautan sudah dipakai atau sudah terlalu lama. Minta yang baru kepada orang yang memberikannya.
error-wait = Terlalu banyak kata sandi yang salah
error-wait-words = { $minutes ->
   *[other] Demi keamanan Anda, untuk sementara tidak ada kata sandi yang diperiksa, termasuk yang benar. Coba lagi dalam { $minutes } menit.
}

## Yang salah pada suatu isian

fault-required = Wajib diisi.
fault-too-short = Paling sedikit { $bound } karakter.
fault-too-long = Paling banyak { $bound } karakter.
fault-too-small = Paling sedikit { $bound }.
fault-too-large = Paling banyak { $bound }.
fault-is-empty = Pilih paling sedikit satu.
fault-is-too-long = Isian ini terlalu panjang.
fault-is-too-small = Nilai ini terlalu kecil.
fault-is-too-large = Ini terlalu banyak.
fault-not-allowed = Isian ini tidak dapat dipakai di sini.
fault-invalid-format = Isian ini tidak dapat dibaca.
fault-invalid-type = Jenis isian ini salah.
fault-unknown-field = Isian ini tidak dikenal.
fault-duplicate = Ini sudah ada.
fault-not-found = Ini tidak ada.
fault-insecure-url = Alamat harus diawali https.
fault-blocked-address = Alamat ini tidak boleh dihubungi.
fault-phone = Ini bukan nomor telepon. Tulis seperti 0812 3456 7890, atau dengan + dan kode negara.
# Ini menggantikan kalimat API, juga dalam bahasa Inggris; kalimat tentang skema hanya dalam bahasa lain.
fault-entry = Isian ke-{ $number }
fault-whole-number = Isi dengan bilangan bulat, misalnya 10.
fault-not-in-list = Pilih salah satu dari daftar.
fault-twice = Ini tertulis dua kali.
fault-id = ID ini tidak valid.
fault-date = Isi dengan tanggal, misalnya 2026-01-15.
fault-ends-too-early = Waktu akhir harus setelah waktu awal.
fault-time-zone = Zona waktu ini tidak dikenal. Isi dengan nama seperti Asia/Jakarta.
fault-language = Isi dengan kode bahasa, misalnya id atau en.
fault-email = Ini bukan alamat email. Tulis seperti nama@example.com.
fault-control-characters = Hapus baris baru, tab, dan karakter lain yang tidak terlihat.
fault-nul = Teks ini memuat karakter yang tidak dapat disimpan (U+0000). Di sini karakter itu sudah dibuang.
fault-color = Isi dengan # dan enam angka atau huruf a sampai f, misalnya #0f766e.
fault-not-an-agent = Pilih salah satu agen Anda.
fault-agent-too-large = Dengan ini agen dan fungsinya terlalu besar. Persingkat, atau hapus sebuah fungsi.
fault-agents-too-large = Dengan ini semua agen dan fungsinya terlalu besar. Persingkat, atau hapus sebuah agen.
fault-too-many-agents = Anda sudah punya { $bound } agen, jumlah paling banyak. Hapus satu dahulu.
fault-too-many-functions = Agen ini sudah punya { $bound } fungsi, jumlah paling banyak. Hapus satu dahulu.
fault-function-name = Awali dengan huruf atau _, lalu hanya huruf, angka, _ dan -, misalnya cek_pesanan.
fault-function-built-in = Nama ini sudah dipakai alat bawaan. Pilih nama lain.
fault-function-exists = Agen ini sudah punya fungsi dengan nama ini. Pilih nama lain.
fault-url = Tulis alamat lengkap, misalnya https://example.com/hooks.
fault-url-insecure = Alamat harus diawali https.
fault-url-host = Nama server dalam alamat ini tidak valid.
fault-url-user = Alamat tidak boleh memuat nama pengguna atau kata sandi.
fault-url-fragment = Alamat tidak boleh memuat tanda # dan yang mengikutinya.
fault-url-internal = Alamat harus menuju server publik, bukan nama internal atau khusus.
fault-url-port = Alamat tidak boleh memakai port protokol lain. Server web ada di 443, 8443, dan sejenisnya.
fault-url-not-public = Alamat ini menuju jaringan yang tidak publik.
fault-url-own = Alamat tidak boleh menuju layanan ini sendiri.
fault-origin = Tulis alamat situs web tanpa jalur, misalnya https://toko.example.com.
fault-origin-insecure = Alamat harus diawali https. Browser tidak memberi mikrofon kepada halaman lain, kecuali di localhost.
fault-too-many-origins = Paling banyak { $bound } alamat.
fault-no-transfer = Panggilan tidak dapat dialihkan ke nomor ini. Nomor premium, satelit, dan tarif bersama tidak diizinkan, dan pengelola layanan dapat membatasi lebih jauh.
fault-is-joined = Penelepon sudah disambungkan ke petugas.
fault-too-many-transfers = Panggilan ini sudah dialihkan { $bound } kali, jumlah paling banyak.
fault-json = Ini bukan JSON: baris { $line }, kolom { $column } tidak dapat dibaca.
fault-json-refused = JSON ini tidak dapat dipakai.
fault-too-many-bytes = Paling banyak { $bound } byte JSON.
fault-schema-object = Ini harus berupa objek dalam kurung kurawal, misalnya {"{"}"type": "object"{"}"}.
fault-schema-keyword = Kata kunci ini tidak dapat dipakai.
fault-schema-type = Jenis nilai ini salah.
fault-schema-value = Nilai ini tidak dapat dipakai.
fault-schema-property = Nama ini tidak ada di antara properti.
fault-schema-too-large = Skema terlalu besar di sini.

## Masuk

sign-in-title = Masuk
sign-in-email = Email
sign-in-password = Kata sandi
sign-in-submit = Masuk
sign-in-wrong = Alamat email atau kata sandi salah.
sign-in-forgotten = Lupa kata sandi? Minta tautan sekali pakai kepada pengelola layanan. Jika Anda belum pernah membuat kata sandi, pemilik akun Anda juga bisa membuatkannya.

link-title = Masuk ke { $tenant }
link-words = Dengan tautan ini Anda masuk sebagai { $email }.
link-submit = Masuk
link-once = Berlaku sekali, sampai

password-title = Buat kata sandi
password-words = Dengan kata sandi, lain kali Anda dapat masuk tanpa tautan.
password-new = Kata sandi baru
password-hint = 10 sampai 256 karakter. Beberapa kata yang hanya Anda rangkai sendiri mudah diingat dan sulit ditebak.
password-submit = Buat kata sandi
password-later = Nanti saja
password-wrong = Ini bukan kata sandi Anda.
password-common = Ini salah satu kata sandi yang paling umum, yang pertama kali dicoba orang. Pilih yang lain.

## Beranda

home-title = Halo, { $name }
home-no-password = Anda belum punya kata sandi. Tanpa kata sandi Anda memerlukan tautan baru setiap kali masuk.
home-set-password = Buat kata sandi
home-balance = Saldo
home-minutes = { $minutes ->
   *[other] { $minutes } menit
}

## Agen

nav-agents = Agen
done-agent-made-without = Agen dibuat, tetapi fungsi contohnya tidak dapat ditambahkan.
done-agent-made = Agen sudah dibuat. Coba bicara dengannya, lalu beri nomor.
done-agent-duplicated = Ini salinannya. Fungsinya sama, dan belum punya nomor.
done-agent-deleted = Agen sudah dihapus.

agents-title = Agen
agents-words = Agen menjawab nomor telepon Anda dengan suara, salam pembuka, dan instruksi yang Anda berikan.
agents-none = Belum ada agen
agents-none-words = Buat yang pertama. Anda dapat langsung mencobanya, juga tanpa nomor telepon.
agents-make = Buat agen
agents-new = Agen baru
agents-make-submit = Buat agen
agents-name = Nama
agents-name-hint = Untuk Anda dan rekan kerja; penelepon tidak mendengarnya.
agents-prompt = Instruksi
agents-prompt-hint = Siapa agen ini, apa yang diketahuinya, apa yang boleh dan tidak boleh dilakukannya. Tulis seperti kepada rekan kerja baru.
agents-greeting = Salam pembuka
agents-greeting-hint = Kalimat pertama yang didengar penelepon. Bila kosong, agen menyusunnya sendiri.
agents-voice = Suara
agents-voice-none = Suara bawaan
agents-voice-puck = ceria
agents-voice-charon = informatif
agents-voice-kore = tegas
agents-voice-fenrir = bersemangat
agents-voice-aoede = santai
agents-language = Bahasa
agents-provider = Penyedia suara
agents-provider-default = Penyedia bawaan
agents-voice-name = Suara menurut nama
agents-voice-name-hint = Nama suara dari penyedianya, misalnya marin. Nama ini menggantikan suara di atas.
agents-time-zone = Zona waktu
agents-time-zone-hint = Agen mengetahui tanggal dan jam di zona ini, misalnya Asia/Jakarta.
agents-conversation = Percakapan
agents-reminder = Bertanya setelah hening (detik)
agents-reminder-hint = Dari 3 sampai 120. Agen bertanya apakah penelepon yang diam masih ada.
agents-silence = Menutup setelah hening (detik)
agents-silence-hint = Dari 5 sampai 600, setelah agen bertanya dua kali.
agents-fillers = Selama fungsi berjalan lama
agents-fillers-words = Kalimat pendek
agents-fillers-tone = Nada lembut
agents-fillers-off = Tidak ada
agents-interruptions = Penelepon yang menyela
agents-interruptions-fast = Agen langsung berhenti sejenak
agents-interruptions-model = Penyedia suara yang menentukan
agents-interruptions-off = Agen menyelesaikan kalimatnya
agents-mask-keys = Sembunyikan tombol yang ditekan
agents-mask-keys-hint = Transkrip menampilkan titik untuk setiap angka yang ditekan penelepon.
agents-minutes = Batas durasi (menit)
agents-minutes-hint = Dari 1 sampai 240. Panggilan diakhiri pada batas ini.
agents-tools = Alat
agents-tools-hint = Apa yang boleh dilakukan agen selama panggilan.
agents-tool-end = Mengakhiri panggilan
agents-tool-transfer = Menyambungkan penelepon ke petugas
agents-escalation = Alihkan ke (nomor telepon)
agents-escalation-hint = Misalnya 0812 3456 7890, atau dengan + dan kode negara.
agents-active = Aktif
agents-active-hint = Agen yang dimatikan tidak menerima panggilan.
agents-inactive = tidak aktif
agents-inactive-words = Agen ini dimatikan: panggilan ke nomornya ditolak.
agents-no-escalation = Agen boleh menyambungkan penelepon ke petugas, tetapi nomornya belum ada, jadi agen tidak akan menawarkannya. Isi nomornya, atau matikan kemampuan ini.
agents-too-many-versions = Agen akun ini terlalu sering diubah dalam waktu singkat. Tidak ada yang berubah; coba lagi beberapa menit lagi, atau hapus agen yang tidak diperlukan.
agents-unreachable = Belum ada nomor telepon yang memakai agen ini.
agents-take-number = Jawab { $number } dengan agen ini
agents-assign = Pilih agen untuk setiap nomor
agents-parts = Bagian dari agen ini
agents-history = Riwayat
agents-numbers = Nomor telepon
agents-no-number = belum ada nomor
agents-and-more = dan { $count } lagi
agents-more-numbers = dan lainnya
agents-changed = Diubah
agents-more = Salin atau hapus
agents-duplicate = Buat salinan
agents-duplicate-hint = Salinan punya pengaturan dan fungsi yang sama, tanpa nomor.

templates-title = Contoh
templates-words = Mulai dari contoh, atau dari formulir kosong:
templates-chosen = Ganti semua yang ada di dalam kurung siku dengan data usaha Anda.
templates-functions = Contoh ini membawa fungsi ({ $names }) yang menjawab dengan data contoh. Ganti alamatnya dengan alamat Anda sendiri nanti.
templates-no-functions = Contoh ini tidak membawa fungsi, karena layanan ini tidak punya alamat publik yang dapat ditanya.
template-clinic = Klinik
template-workshop = Bengkel
template-restaurant = Restoran
template-hotel = Hotel
template-shop = Toko
template-courier = Kurir
template-school = Sekolah
template-property = Properti

history-title = Riwayat { $name }
history-words = Setiap perubahan yang disimpan menjadi satu versi. Panggilan memakai versi saat ia dimulai.
history-version = Versi { $number }
history-present = Inilah yang dihadapi penelepon sekarang.
history-oldest = Tidak ada versi lebih lama untuk dibandingkan.
history-calls = { $count } panggilan
history-outcomes = { $share }% dijawab, fungsi gagal pada { $failing } panggilan
history-outcomes-of-some = dari { $calls } panggilan { $share }% dijawab, fungsi gagal pada { $failing }
history-many-calls = 1.000 panggilan atau lebih
history-conversation = Percakapan
history-restore = Kembalikan versi { $number }
history-gone = Versi itu sudah tidak disimpan.
history-back = Kembali ke agen
done-restored = Pengaturan lama dipakai lagi, sebagai versi baru. Fungsi tidak berubah.

talk-title = Bicara dengannya
talk-words = Telepon agen dari sini, dengan isi formulir, disimpan atau belum. Menit terpakai seperti panggilan biasa.
talk-no-script = Bagian halaman ini membutuhkan JavaScript.
talk-caller = Nomor penelepon
talk-caller-hint = Yang diberitahukan kepada agen dan fungsinya.
talk-begin = Bicara
talk-end = Tutup telepon
talk-level = Suara Anda
talk-keys = Tombol
talk-log = Percakapan
talk-link = Buka panggilan
talk-website = Pasang tombol untuk agen ini di situs web Anda
talk-connecting = Menghubungkan…
talk-ready = Agen sudah tersambung. Silakan bicara.
talk-ended = Panggilan selesai.
talk-lost = Sambungan terputus. Coba lagi; kalau tetap gagal, tanya pengelola layanan apakah panggilan dari browser sudah disiapkan.
talk-insecure = Browser memberi mikrofon hanya lewat HTTPS. Buka halaman ini dengan https://.
talk-refused = Browser menolak mikrofon. Izinkan di samping alamat halaman, lalu coba lagi.
talk-missing = Mikrofon tidak ditemukan. Sambungkan dulu, lalu coba lagi.
talk-wrong = Ada yang salah di formulir. Simpan agen untuk melihatnya.
talk-wrong-caller = Nomor penelepon salah. Perbaiki di atas.
talk-unavailable = Panggilan tidak bisa dibuat. Coba sebentar lagi.
talk-signed-out = Anda sudah keluar. Masuk lagi.
talk-interrupted = dipotong
talk-running = berjalan
talk-ok = selesai
talk-error = gagal
talk-length = {"{"}count{"}"} dari 32.000 karakter
chat-begin = Mulai chat
chat-title = Chat dengannya
chat-invitation = Coba lewat tulisan dengan isi formulir, sudah disimpan atau belum. Tidak memakai menit. Terbuka di tab baru.
chat-with = Chat dengan { $name }
chat-saved = Agen menjawab lewat tulisan, dengan pengaturan yang tersimpan saat percakapan ini dimulai.
chat-draft = Agen menjawab lewat tulisan, dengan pengaturan yang belum disimpan.
chat-words = Fungsi dipanggil sebagai uji coba. Tidak ada menit yang terpakai, dan ini bukan panggilan.
chat-text = Pesan Anda
chat-send = Kirim
chat-facts = Sisa { $left } pesan. Biaya model bahasa sejauh ini { $cost }.
chat-until = Percakapan ini dihapus pada
chat-back = Kembali ke agen
chat-answering = Pesan sebelumnya masih sedang dijawab. Kirim lagi pesan ini sebentar lagi.
chat-full = Percakapan ini penuh: sudah berisi { $most } pesan, atau teks dan hasilnya terlalu panjang. Mulai yang baru dari halaman agen.
chat-too-many = Terlalu banyak percakapan dimulai dalam satu jam ini. Kembali lagi setelah yang tertua berumur satu jam.
chat-too-slow = Jawabannya terlalu lama: model bahasa atau fungsinya lambat.
chat-no-answer = Model bahasa tidak menjawab. Kalau pesan Anda tidak ada di atas, kirim lagi sebentar lagi.
chat-empty = Jawaban model bahasa kosong. Kalau pesan Anda tidak ada di atas, kirim lagi.
chat-endless = Agen terus memanggil fungsi tanpa sampai pada jawaban. Periksa instruksi dan fungsinya.
chat-not-kept = Jawaban tidak bisa disimpan. Kirim lagi pesan itu sebentar lagi.
agents-copy = (salinan)
agents-delete = Hapus
agents-delete-title = Hapus { $name }?
agents-delete-functions = Fungsinya ikut terhapus:
agents-delete-numbers = Nomor berikut menjadi tanpa agen, dan panggilan ke nomor itu ditolak sampai Anda memilih agen lain:
agents-delete-calls = Panggilan yang sedang berlangsung berjalan sampai selesai, dan riwayat panggilan tetap ada.
agents-delete-final = Ini tidak dapat dibatalkan.

## Fungsi

done-function-made = Fungsi sudah dibuat dan boleh dipakai agen. Uji sekarang.
done-function-deleted = Fungsi sudah dihapus.

functions-title = Fungsi
functions-words = Selama panggilan, agen dapat bertanya kepada server Anda, misalnya apakah pesanan sudah dikirim. Jawabannya dipakai dalam percakapan.
functions-none = Belum ada fungsi
functions-none-words = Dengan fungsi, agen dapat mencari data di server Anda, atau meminta sesuatu dikerjakan, sambil berbicara.
functions-make = Tambah fungsi
functions-new = Fungsi baru
functions-make-submit = Buat fungsi
functions-name = Nama
functions-name-hint = Huruf, angka, _ dan -, misalnya cek_pesanan.
functions-description = Keterangan
functions-description-hint = Apa gunanya dan kapan dipakai. Keterangan ini dibaca AI.
functions-endpoint = Alamat
functions-endpoint-hint = Tujuan permintaan di server Anda, misalnya https://toko.example.com/pesanan. Server harus menjawab dalam beberapa detik dengan objek JSON.
functions-method = Metode
functions-parameters = Parameter
functions-parameters-hint = Apa yang perlu diketahui AI sebelum bertanya, berupa JSON Schema bertipe object.
parameter-words = Apa yang perlu diketahui agen sebelum memanggil fungsi ini, misalnya nomor pesanan. Baris kosong diabaikan.
parameter-row = Parameter { $number }
parameter-name = Nama
parameter-kind = Jenis
parameter-text = Teks
parameter-number = Angka
parameter-integer = Bilangan bulat
parameter-boolean = Ya atau tidak
parameter-choice = Salah satu dari daftar
parameter-ask = Apa yang ditanyakan agen
parameter-choices = Pilihan, dipisahkan dengan koma
parameter-required = Wajib
parameter-add = Tambah baris
parameter-most = Daftar memuat paling banyak 12 baris. Untuk menambah lagi, ubah parameter sebagai JSON.
parameter-remove = Hapus
parameter-remove-row = Hapus parameter { $number }
parameter-as-json = Ubah sebagai JSON
parameter-as-list = Ubah sebagai daftar
parameter-json-only = Parameter ini memuat lebih dari yang dapat ditampilkan dalam daftar, jadi hanya dapat diubah sebagai JSON.
parameter-twice = Nama ini sudah dipakai di baris lain.
functions-example = Contoh
functions-place = Baris { $line }, kolom { $column }:
functions-no-json = Mulai dari sini teks ini bukan JSON.
functions-request = Permintaan
functions-disabled = dimatikan
functions-disabled-words = Agen tidak memakai fungsi ini: fungsi ini tidak dicentang di antara alat agen.
functions-settings = Pengaturan
functions-lately = 24 jam terakhir
functions-slow = Satu dari dua puluh jawaban memakan waktu { $ms } ms atau lebih. Selama itu penelepon mendengar keheningan.
functions-last-calls = Panggilan terakhir
functions-run-when = Waktu
functions-run-outcome = Hasil
functions-run-length = Lama
functions-since = Dalam panggilan sejak
functions-calls = Pemanggilan
functions-failures = Kegagalan
functions-half = Median
functions-nearly-all = Persentil ke-95
functions-slowest = Terlama
functions-ms = { $ms } ms
functions-circuit-open = Alamat ini tidak menjawab beberapa kali terakhir, dan untuk sementara tidak dihubungi.
functions-circuit-half-open = Alamat ini tidak menjawab beberapa kali terakhir. Pemanggilan berikutnya menentukan apakah alamat dihubungi lagi.
functions-circuit-retry = Akan dicoba lagi pada
functions-delete = Hapus
functions-delete-title = Hapus { $name }?
functions-delete-words = { $agent } tidak dapat memakainya lagi mulai panggilan berikutnya.
functions-delete-calls = Panggilan yang sedang berlangsung tetap memakainya sampai selesai.
functions-test = Uji
functions-test-title = Uji { $name }
functions-try = Coba
functions-test-words = Ini mengirim permintaan nyata ke server Anda. Permintaan membawa X-Service-Test: true agar server Anda dapat membedakannya.
functions-arguments = Argumen
functions-arguments-hint = Nilai contoh, berupa JSON.
functions-test-submit = Kirim permintaan
functions-test-good = Berhasil. Jawaban datang dalam { $ms } ms.
functions-test-bad = Gagal setelah { $ms } ms.
functions-sent = Permintaan yang dikirim
functions-signature = X-Service-Signature adalah sha256= diikuti HMAC-SHA256 dari isi permintaan apa adanya, dengan rahasia fungsi Anda sebagai kunci. Server Anda menghitung hal yang sama lalu membandingkan:
functions-answer = Yang diterima
functions-status = Status
functions-no-body = Jawaban tidak punya isi.
functions-told = Yang diberitahukan kepada AI
functions-fault-timeout = Server tidak menjawab pada waktunya. Jawab lebih cepat, dan kerjakan yang lama setelahnya.
functions-fault-connection = Server tidak dapat dihubungi. Apakah alamatnya benar, servernya berjalan, sertifikatnya berlaku?
functions-fault-blocked = Tidak dikirim: alamat ini menuju jaringan yang tidak boleh dihubungi dari sini.
functions-fault-status = Server menjawab dengan status selain 2xx. Lihat jawabannya di bawah.
functions-fault-response = Jawabannya bukan objek JSON. Lihat di bawah.
functions-fault-large = Jawabannya lebih dari 64 KiB. Kirim hanya yang diperlukan AI.
functions-misfit = Tidak dikirim:
functions-misfit-text = Tidak dikirim: { $name } harus berupa teks.
functions-misfit-number = Tidak dikirim: { $name } harus berupa angka.
functions-misfit-integer = Tidak dikirim: { $name } harus berupa bilangan bulat.
functions-misfit-boolean = Tidak dikirim: { $name } harus ya atau tidak (true atau false).
functions-misfit-required = Tidak dikirim: { $name } wajib diisi.
functions-misfit-unknown = Tidak dikirim: tidak ada parameter bernama { $name }.
functions-fault-other = Saat ini tidak dapat dipanggil.

## Nomor telepon

nav-numbers = Nomor telepon
done-number-assigned = Tersimpan. Berlaku mulai panggilan berikutnya.

numbers-title = Nomor telepon
numbers-words = Agen mana yang menjawab bila ada yang menelepon. Nomor baru diberikan oleh pengelola layanan.
numbers-none = Belum ada nomor
numbers-none-words = Minta nomor kepada pengelola layanan.
numbers-no-agents = Belum ada agen yang dapat menjawab.
numbers-number = Nomor
numbers-agent = Agen
numbers-no-agent = Tanpa agen
numbers-agent-of = Agen untuk { $number }
numbers-save-of = Simpan agen untuk { $number }
numbers-all-agents = Semua agen
numbers-seek = Bagian dari nama agen
numbers-seek-submit = Cari
numbers-seek-nothing = Tidak ada agen dengan nama seperti itu.
numbers-seek-more = { $shown } agen terbaru ditawarkan, masih ada { $more } lagi. Cari yang lain menurut namanya.
numbers-inactive = tidak aktif
numbers-inactive-words = Nomor ini dimatikan pengelola. Panggilan ke nomor ini ditolak.
numbers-unanswered = tanpa agen
numbers-agent-inactive = agen tidak aktif

## Akun Anda

account-title = Akun Anda
account-profile = Tentang Anda
account-email = Email
account-name = Nama
account-language = Bahasa
account-language-browser = Sesuai browser
account-time-zone = Zona waktu
account-mails-low-credit = Kirim email bila saldo menipis
account-mails-disabled-webhooks = Kirim email bila webhook yang gagal dinonaktifkan
account-password = Kata sandi
account-password-set = Buat kata sandi
account-password-old = Kata sandi saat ini
account-password-new = Kata sandi baru
account-password-change = Ubah kata sandi
account-sessions = Perangkat yang sedang masuk
account-session-browser = Browser
account-session-address = Alamat
account-session-began = Sejak
account-session-used = Terakhir dipakai
account-session-this = yang ini
account-session-unknown = Tidak dikenal
account-everywhere-words = Ini mengakhiri semua sesi, termasuk yang ini, dan menarik kembali tautan sekali pakai yang belum digunakan.
account-everywhere = Keluar dari semua perangkat

## Anggota

members-title = Anggota
members-name = Nama
members-email = Email
members-role = Peran
members-role-of = Peran { $name }
members-role-hint = Pemilik dapat melakukan segalanya. Pengamat melihat semuanya kecuali rahasia, dan tidak mengubah apa pun.
members-owner = Pemilik
members-viewer = Pengamat
members-since = Sejak
members-you = Anda
members-no-password = belum punya kata sandi
members-invite = Undang seseorang
members-invite-submit = Undang
members-email-taken = Alamat ini sudah dipakai seseorang. Setiap orang hanya dapat menjadi anggota satu akun.
members-too-many = Satu akun paling banyak punya { $most } anggota. Hapus satu dahulu.
members-link = Tautan baru
members-link-of = Tautan baru untuk { $name }
members-link-title = Tautan untuk anggota baru
members-link-words = Kirim secara pribadi kepada orang ini. Tautan berlaku sekali dalam 7 hari dan tidak ditampilkan lagi.
members-remove = Hapus
members-remove-of = Hapus { $name }
members-remove-title = Hapus { $name }?
members-remove-words = { $email } langsung dikeluarkan dari semua perangkat dan tidak dapat masuk lagi.
members-remove-keys = Kunci API yang dibuat orang ini tetap aktif.
members-last-owner = Ini pemilik terakhir. Jadikan anggota lain pemilik dahulu.
members-has-password = Orang ini sudah masuk dengan kata sandi.

## Kunci API

keys-title = Kunci API
keys-words = Dengan kunci, program Anda dapat melakukan semua yang dapat dilakukan akun ini. Beri setiap program kuncinya sendiri.
keys-none = Belum ada kunci
keys-none-words = Buat satu untuk program pertama yang akan bekerja dengan akun ini.
keys-make = Buat kunci
keys-name = Nama
keys-name-hint = Misalnya: Kasir Bandung
keys-make-submit = Buat kunci
keys-too-many = Satu akun paling banyak punya { $most } kunci aktif. Cabut satu dahulu.
keys-key = Kunci
keys-begins = Diawali
keys-state = Status
keys-in-force = aktif
keys-is-revoked = dicabut
keys-made = Dibuat
keys-made-by = Dibuat oleh
keys-by-operator = pengelola
keys-by-former = mantan anggota
keys-used = Terakhir dipakai
keys-never-used = belum pernah
keys-all = Semua kunci
keys-once = Salin kunci sekarang. Kunci tidak ditampilkan lagi.
keys-once-words = Simpan di tempat yang hanya dapat dibaca program Anda. Siapa pun yang memegangnya dapat melakukan semua yang dapat dilakukan akun ini.
keys-try = Coba:
keys-line = Baris perintah yang memakai kunci
keys-revoke = Cabut
keys-revoke-of = Cabut { $name }
keys-revoke-title = Cabut { $name }?
keys-revoke-words = Program dengan kunci ini ditolak mulai permintaan berikutnya:
keys-revoke-final = Ini tidak dapat dibatalkan. Beri program itu kunci lain dahulu.
keys-revoked = Kunci yang dicabut
keys-revoked-at = Dicabut

## Rahasia fungsi

secret-title = Rahasia fungsi
secret-words = Rahasia ini menandatangani permintaan yang dikirim panggilan ke fungsi Anda. Dengan itu server Anda memeriksa bahwa permintaan berasal dari kami.
secret-shown = Salin sekarang. Untuk melihatnya lagi Anda akan ditanya kata sandi.
secret-owners = Hanya pemilik yang melihat rahasia ini.
secret-show = Tampilkan rahasia
secret-no-password = Buat kata sandi dahulu: Anda akan ditanya di sini.
secret-password = Kata sandi Anda
secret-rotate = Ganti rahasia
secret-rotate-hint = Lakukan ini bila rahasia dilihat orang yang tidak berhak.
secret-rotate-submit = Ganti
secret-rotate-title = Ganti rahasia fungsi?
secret-rotate-words = Mulai sekarang permintaan ke fungsi Anda ditandatangani dengan rahasia baru. Server yang hanya tahu rahasia lama menolaknya sampai Anda memberi tahu yang baru: sampai saat itu fungsi gagal dalam panggilan.
secret-rotate-final = Rahasia lama tidak dapat dipulihkan.

## Webhook

nav-widgets = Situs web
nav-webhooks = Webhook
nav-credits = Saldo
nav-audit = Catatan audit

done-widget-created = Tombol dibuat. Salin baris di bawah ini ke situs web Anda.
done-widget-deleted = Tombol dihapus. Tombol hilang saat halaman dibuka lagi.
done-webhook-made = Webhook sudah dibuat. Salin rahasianya di bawah ini.
done-webhook-enabled = Webhook sudah dinyalakan. Yang menunggu sekarang dikirim.
done-webhook-enabled-later = Webhook sudah dinyalakan.
done-webhook-disabled = Webhook sudah dimatikan.
done-webhook-tested = Contoh sudah dikirim. Hasilnya ada di bawah ini.
done-webhook-rotated = Rahasia sudah diganti. Salin yang baru di bawah ini.
done-webhook-deleted = Webhook sudah dihapus.
done-recovered = Yang gagal dalam rentang waktu itu sedang dikirim ulang.
done-nothing-recovered = Tidak ada yang gagal dalam rentang waktu itu, jadi tidak ada yang dikirim ulang.
done-resent = Sudah dikirim ulang. Hasilnya ada di bawah ini.
done-resent-later = Akan dikirim ulang begitu webhook-nya dapat menerimanya. Di bawah ini tercantum apa yang ditunggu.

webhooks-title = Webhook
webhooks-words = Webhook langsung memberi tahu program Anda bila sesuatu terjadi, misalnya panggilan selesai.
webhooks-none = Belum ada webhook
webhooks-none-words = Buat satu agar program Anda diberi tahu tentang panggilan dan saldo yang menipis.
webhooks-make = Webhook baru
webhooks-make-words = Berikan alamat tempat program Anda menunggu, lalu pilih apa yang diberitahukan kepadanya.
webhooks-make-submit = Buat webhook
webhooks-call-erased = Panggilan sudah dihapus. Tidak ada lagi yang dapat dikirim.
webhooks-too-many = Satu akun paling banyak punya { $most } webhook. Hapus satu dahulu.
webhooks-url = Alamat
webhooks-url-hint = Diawali https://, misalnya https://example.com/hooks/dikala.
webhooks-events = Peristiwa
webhooks-events-hint = Hanya yang Anda centang yang dikirim.
webhooks-all-events = Semua peristiwa
webhooks-state = Status
webhooks-on = menyala
webhooks-off = mati
webhooks-disabled = dinonaktifkan setelah gagal berulang kali
webhooks-disabled-gone = dinonaktifkan, karena server Anda menjawab 410
webhooks-paused = dijeda pengelola
webhooks-failing = sedang gagal
webhooks-off-words = Webhook ini mati: tidak ada yang dikirim ke sana.
webhooks-disabled-words = Webhook ini dinonaktifkan: tidak ada yang dikirim ke sana.
webhooks-enable-words = Bila server Anda sudah siap kembali, nyalakan webhook. Yang menunggu akan dikirim. Untuk yang terjadi selama webhook mati tidak ada pengiriman: lihat di daftar panggilan.
webhooks-enable = Nyalakan
webhooks-disable = Matikan
webhooks-reason-gone = Server Anda menjawab 410 Gone, artinya server tidak mau menerima apa pun lagi.
webhooks-reason-failing = Sepuluh pengiriman berturut-turut gagal selama lima hari, tanpa satu pun yang sampai.
webhooks-paused-words = Pengelola layanan menjeda webhook ini. Pengiriman menunggu dan tidak ada yang hilang. Anda tidak perlu melakukan apa pun.
webhooks-failing-words = Server Anda gagal menerima sejak
webhooks-failing-count = { $count ->
    [0] Yang gagal dicoba lagi. Bila sepuluh pengiriman berturut-turut tidak berhasil selama lima hari, kami mematikan webhook ini.
   *[other] { $count } pengiriman tidak dicoba lagi. Bila ada sepuluh berturut-turut selama lima hari, kami mematikan webhook ini.
}
webhooks-day = Sehari terakhir
webhooks-attempts = Percobaan per jam
webhooks-hour = Jam
webhooks-arrived = diterima
webhooks-tried-again = gagal dan dicoba lagi
webhooks-given-up = gagal dan tidak dicoba lagi
webhooks-made = Dibuat
webhooks-settings = Pengaturan
webhooks-secret = Rahasia
webhooks-secret-hint = Rahasia dibuatkan untuk Anda dan ditampilkan di halaman berikutnya, satu kali saja. Dengan itu server Anda memeriksa bahwa peristiwa berasal dari kami.
webhooks-secret-once = Salin rahasia sekarang. Rahasia tidak ditampilkan lagi.
webhooks-secret-words = Rahasia ini menandatangani yang kami kirim (X-Service-Signature). Simpan di tempat yang hanya dapat dibaca server Anda.
webhooks-secret-standard = Untuk pustaka Standard Webhooks, rahasia ditulis seperti ini:
webhooks-old-secret = Rahasia lama ikut menandatangani sampai
webhooks-test = Kirim uji coba
webhooks-rotate = Ganti rahasia
webhooks-rotate-title = Ganti rahasia?
webhooks-rotate-words = X-Service-Signature langsung dibuat dengan rahasia baru. Server yang memeriksanya dan hanya tahu rahasia lama akan menolak peristiwa sampai Anda memberi tahu yang baru. Sementara itu pengiriman dicoba lagi.
webhooks-rotate-standard = { $hours ->
   *[other] webhook-signature membawa kedua tanda tangan selama { $hours } jam.
}
webhooks-rotate-submit = Ganti
webhooks-recover = Kirim ulang yang gagal
webhooks-recover-title = Kirim ulang yang gagal
webhooks-recover-words = Semua pengiriman yang dibuat dalam rentang waktu ini, atau percobaan terakhirnya gagal di dalamnya, dikirim ulang mulai dari yang tertua. Server Anda mungkin menerima peristiwa yang sama dua kali.
webhooks-recover-since = Dari
webhooks-recover-until = Sampai
webhooks-recover-until-hint = Bila dikosongkan: sampai sekarang.
webhooks-recover-submit = Kirim ulang
webhooks-recover-too-many = Sudah cukup banyak yang sedang dikirim ulang. Coba lagi setelah selesai.
webhooks-delete = Hapus
webhooks-delete-title = Hapus webhook ini?
webhooks-delete-words = Tidak ada lagi yang dikirim ke alamat ini. Yang masih menunggu untuk dikirim dibatalkan.
webhooks-delete-final = Ini tidak dapat dibatalkan.

events-call-started = ada panggilan masuk
events-call-answered = agen menjawab
events-call-ended = panggilan selesai, dengan durasi, sebab, dan biayanya
events-call-turn = satu giliran bicara terdengar
events-call-transcript = ringkasan panggilan sudah siap
events-credits-low = menit Anda menipis
events-function-called = agen memakai salah satu fungsi Anda

## Pengiriman

deliveries-title = Pengiriman
deliveries-one = Pengiriman { $event }
deliveries-filter = Filter pengiriman
deliveries-all = Semua
deliveries-pending = menunggu
deliveries-succeeded = diterima
deliveries-failed = gagal
deliveries-none = Tidak ada pengiriman di sini
deliveries-none-words = Bila terjadi sesuatu yang diberitahukan ke webhook ini, pengirimannya tercantum di sini. Kirim uji coba untuk melihat satu.
deliveries-event = Peristiwa
deliveries-status = Status
deliveries-attempts = Percobaan
deliveries-made = Dibuat
deliveries-next = Dicoba lagi
deliveries-over = Selesai
deliveries-id = ID
deliveries-test = uji coba
deliveries-webhook = Webhook
deliveries-webhook-gone = sudah dihapus
deliveries-call = Panggilan
deliveries-resend = Kirim ulang
deliveries-soon = sebentar lagi
deliveries-paused = Dijeda: alamat tujuan gagal. Dicoba lagi pukul
deliveries-waiting = { $count } pengiriman menunggu.
deliveries-headers-first = Belum ada yang dikirim. Header ini dikirim pada percobaan pertama, selain nomor, waktu, dan tanda tangannya.
deliveries-no-attempt = Belum ada yang dikirim.
deliveries-last-attempts = { $count } percobaan terakhir:
deliveries-attempt = Percobaan
deliveries-outcome = Hasil
deliveries-took = Durasi
deliveries-answer = Jawaban
deliveries-answer-show = Tampilkan
deliveries-answer-empty = kosong
deliveries-error-dns = nama tidak ditemukan
deliveries-error-blocked = alamat tidak diizinkan
deliveries-error-connect = tidak tersambung
deliveries-error-tls = sambungan aman gagal
deliveries-error-timeout = terlalu lambat
deliveries-error-reset = sambungan terputus
deliveries-error-invalid = bukan jawaban HTTP
deliveries-error-busy = tidak dikirim: kami sedang sibuk
deliveries-request = Yang dikirim
deliveries-headers = Header
deliveries-header = Header
deliveries-value = Nilai
deliveries-signed-now = Seperti pada percobaan terakhir; tanda tangannya dari rahasia yang sekarang.
deliveries-not-signed = Seperti pada percobaan terakhir, tanpa tanda tangan.
deliveries-body = Isi
deliveries-body-cut = Hanya awalnya yang ditampilkan. Selengkapnya ada di API.
deliveries-body-gone = Isi pengiriman ini tidak disimpan lagi.

## Saldo

credits-title = Saldo
credits-balance = Saldo
credits-held = Dicadangkan untuk panggilan
credits-used = Terpakai
credits-purchased = Dibeli
credits-held-words = Menit yang dicadangkan untuk panggilan yang sedang berlangsung masih termasuk dalam saldo.
credits-low-words = { $minutes ->
   *[other] Anda diperingatkan bila sisa saldo kurang dari { $minutes } menit.
}
credits-per-day = Menit terpakai per hari
credits-day = Hari
credits-movements = Transaksi
credits-none = Belum ada transaksi
credits-none-words = Pembelian dan menit panggilan tercantum di sini. Mintalah menit kepada pengelola layanan.
credits-when = Waktu
credits-kind = Jenis
credits-minutes = Menit
credits-after = Saldo akhir
credits-what-for = Keterangan
credits-call = Panggilan
credits-csv = Unduh semua sebagai CSV
credits-purchase = pembelian
credits-usage = panggilan
credits-refund = pengembalian
credits-adjustment = koreksi
credits-bonus = bonus

## Catatan audit

audit-title = Catatan audit
audit-words = Siapa mengubah apa di akun ini, kapan, dan dari mana.
audit-none = Tidak ada catatan
audit-none-words = Tidak ada yang diubah, atau tidak ada yang cocok dengan filter ini.
audit-who = Siapa
audit-what = Apa
audit-on-what = Objek
audit-when = Kapan
audit-where = Alamat IP
audit-from = Dari
audit-to = Sampai
audit-anybody = Siapa saja
audit-anything = Apa saja
audit-key = Kunci: { $name }
audit-operator = Pengelola
audit-cli = Pengelola, lewat baris perintah
audit-former = mantan anggota
audit-csv = Unduh sebagai CSV
audit-agent-create = Agen dibuat
audit-agent-update = Agen diubah
audit-agent-delete = Agen dihapus
audit-function-create = Fungsi dibuat
audit-function-update = Fungsi diubah
audit-function-delete = Fungsi dihapus
audit-chat-create = Percakapan tertulis dimulai
audit-widget-create = Tombol dibuat
audit-widget-update = Tombol diubah
audit-widget-delete = Tombol dihapus
audit-webhook-create = Webhook dibuat
audit-webhook-update = Webhook diubah
audit-webhook-delete = Webhook dihapus
audit-webhook-rotate-secret = Rahasia webhook diganti
audit-webhook-pause = Webhook dijeda
audit-webhook-resume = Webhook dilanjutkan
audit-webhook-recover = Pengiriman yang gagal dikirim ulang
audit-delivery-resend = Pengiriman dikirim ulang
audit-call-hangup = Panggilan diakhiri secara manual
audit-call-transfer = Panggilan dialihkan secara manual
audit-call-erase = Data pribadi panggilan dihapus
audit-call-show-numbers = Nomor lengkap dalam pesan SIP ditampilkan
audit-number-create = Nomor telepon ditambahkan
audit-number-update = Nomor telepon diubah
audit-number-assign = Nomor telepon ditugaskan
audit-number-unassign = Nomor telepon dilepas
audit-number-delete = Nomor telepon dihapus
audit-key-create = Kunci API dibuat
audit-key-revoke = Kunci API dicabut
audit-user-create = Anggota ditambahkan
audit-user-role = Peran diubah
audit-user-name = Nama diubah
audit-user-remove = Anggota dihapus
audit-user-link = Tautan sekali pakai dibuat
audit-user-password = Kata sandi disetel
audit-user-sign-in = Masuk
audit-user-sign-out-everywhere = Keluar dari semua perangkat
audit-function-secret-show = Rahasia fungsi ditampilkan
audit-function-secret-rotate = Rahasia fungsi diganti
audit-credit-add = Saldo ditambahkan
audit-tenant-create = Akun dibuat
audit-tenant-update = Akun diubah
audit-tenant-suspend = Akun ditangguhkan
audit-tenant-resume = Akun dipulihkan
audit-bridge-create = Jembatan telepon dibuat
audit-bridge-revoke = Jembatan telepon dicabut
audit-secrets-rotate = Kunci rahasia diganti
audit-problem-snooze = Masalah ditunda
audit-problem-show = Masalah yang ditunda ditampilkan lagi

## Gambar

chart-table = Angka dalam tabel
chart-nothing = Belum ada apa-apa dalam kurun ini.
chart-words = Total { $all }; puncak pada { $when }: { $most }.

## Beranda: bagaimana jalannya

home-setup = Langkah-langkah awal
home-is-done = selesai
home-has-agent = Agen
home-has-number = Nomor telepon
home-has-assigned = Agen menjawab panggilan ke nomor Anda
home-has-minutes = Menit
home-has-call = Panggilan pertama
home-step-agent = Buat agen pertama Anda: beri nama, jelaskan tugasnya, dan pilih suaranya.
home-step-number = Mintalah nomor telepon kepada pengelola layanan; nomor akan muncul di halaman Nomor telepon.
home-step-assign = Pilih agen yang menjawab nomor telepon Anda.
home-step-minutes = Mintalah menit kepada pengelola layanan; sampai saat itu panggilan ditolak.
home-step-call = Semuanya siap. Telepon { $number } dan bicaralah dengan agen Anda.
home-make-agent = Buat agen
home-assign-agent = Pilih agen
home-attention = Perlu perhatian
home-no-credit = Menit sudah habis. Panggilan ditolak.
home-low-credit = { $minutes ->
   *[other] Hanya tersisa { $minutes } menit.
}
home-see-credits = Lihat saldo
home-webhook-disabled = Webhook { $url } sudah dimatikan, karena server Anda terlalu lama gagal atau menolaknya (410).
home-webhook-failing = Pengiriman ke webhook { $url } gagal. Pengiriman dicoba lagi.
home-see-webhook = Lihat webhook
home-function-failing = Fungsi { $name } gagal { $failed } kali dalam panggilan terakhirnya.
home-see-function = Lihat fungsi
home-number-without-agent = Tidak ada agen yang menjawab { $number }. Panggilan ke nomor itu ditolak.
home-figures = Panggilan Anda
home-before-today = { $value } pada hari yang sama minggu lalu
home-before-days = { $value } dalam { $days } hari sebelumnya
home-missed = Mengapa { $count } panggilan tidak terjawab
home-missed-latest = Alasan di atas hanya mencakup { $count } panggilan tak terjawab yang terakhir.
home-see-failed = Lihat panggilan gagal
home-see-dropped = Lihat semua panggilan terputus, juga yang terjawab
home-busiest = Jam tersibuk dalam empat minggu terakhir
home-calls = Panggilan
home-answered = Terjawab
home-used = Menit terpakai
home-running = { $calls } sedang berlangsung
home-lasts = { $days ->
   *[other] cukup untuk sekitar { $days } hari dengan laju minggu terakhir
}
home-lasts-hours = cukup untuk kurang dari sehari dengan laju minggu terakhir
home-lasts-year = cukup untuk lebih dari setahun dengan laju minggu terakhir
home-lasts-unknown = tidak ada yang terpakai minggu terakhir
home-lasts-early = perkiraan habisnya saldo muncul tiga hari setelah panggilan pertama
home-per-hour = Panggilan per jam
home-hour = Jam
home-per-day = Panggilan per hari
home-day = Hari
home-series-answered = terjawab
home-series-missed = tidak terjawab
home-latest = Panggilan terakhir
home-all-calls = Semua panggilan

## Panggilan

calls-title = Panggilan
calls-csv = Unduh CSV
calls-filter-none = Tampilkan semua panggilan
calls-search = Nomor penelepon, atau sebagian
calls-search-cut = Hanya 10.000 panggilan terbaru yang dicari: ketik lebih banyak angka.
calls-period = Periode
calls-period-today = Hari ini
calls-period-7 = 7 hari
calls-period-30 = 30 hari
calls-counted = { $count } panggilan, { $answered } dijawab, { $minutes } mnt bicara
calls-counted-many = Lebih dari { $count } panggilan
calls-from-caller = Panggilan dari { $caller }, { $time }
calls-facts = Data panggilan
calls-more = Lainnya
calls-any = Semua
calls-state = Status
calls-from = Dari tanggal
calls-to = Sampai tanggal
calls-agent = Agen
calls-number = Nomor telepon
calls-voice = Suara
voice-provider-gemini = Gemini Live
voice-provider-openai = OpenAI Realtime
voice-provider-pipeline = Pipeline suara
voice-provider-scripted = Suara uji
calls-turn-latency = menjawab: median { $p50 }, 95% di bawah { $p95 }
calls-interruptions = { $count } selaan
calls-stalls = { $count } jeda panjang
calls-channel = Saluran
calls-channel-phone = Telepon
calls-channel-whatsapp = WhatsApp
calls-channel-web = Browser
calls-caller = Penelepon
calls-when = Mulai
calls-about = Tentang
calls-talk = Durasi
calls-newest = Ke yang terbaru
calls-none = Belum ada panggilan
calls-none-words = Panggilan muncul di sini dengan sendirinya begitu seseorang menelepon salah satu nomor Anda.
calls-none-link = Langkah berikutnya
calls-none-found = Tidak ada panggilan yang cocok
calls-none-found-words = Ubah atau hapus filter.
calls-agent-gone = agen yang sudah dihapus
calls-agent-none = tanpa agen
calls-erased = sudah dihapus
calls-ringing = berdering
calls-answered = berlangsung
calls-ended = selesai
calls-dropped = terputus
calls-failed = gagal
calls-seconds = { $seconds } dtk
calls-minutes-seconds = { $minutes } mnt { $seconds } dtk
calls-milliseconds = { $ms } ms

calls-reason-normal = Telepon ditutup
calls-reason-transferred = Penelepon disambungkan ke petugas
calls-reason-max-duration = Batas durasi panggilan tercapai
calls-reason-credits-exhausted = Menit habis terpakai
calls-reason-requested = Diakhiri oleh tim Anda
calls-reason-operator = Pengelola layanan mengakhirinya
calls-reason-silence = Penelepon tidak berbicara lagi
calls-reason-abandoned = Penelepon menutup saat masih berdering
calls-reason-media-lost = Suara terputus
calls-reason-ai-error = AI mengalami gangguan
calls-reason-bridge-lost = Sambungan ke jalur telepon terputus
calls-reason-answer-timeout = Tidak ada yang menjawab pada waktunya
calls-reason-bridge-error = Sistem telepon mengalami gangguan
calls-reason-rejected = Sistem telepon menolak panggilan
calls-reason-no-agent = Nomor itu tidak punya agen
calls-reason-agent-inactive = Agen dinonaktifkan
calls-reason-number-inactive = Nomor dinonaktifkan
calls-reason-insufficient-credits = Tidak ada menit tersisa
calls-reason-concurrency-limit = Terlalu banyak panggilan sekaligus
calls-reason-tenant-suspended = Akun ditangguhkan
calls-caller-hung-up = Ditutup penelepon
calls-agent-hung-up = Ditutup agen
calls-ended-by = Diakhiri oleh { $name }
calls-transferred-by = Dialihkan oleh { $name } ke { $to }
calls-is-ending = Mengakhiri panggilan…
calls-is-transferring = Mengalihkan panggilan…

calls-said-caller = Penelepon
calls-said-agent = Agen
calls-interrupted = disela
calls-said-tool = Alat

calls-duration = Durasi
calls-of-it-talk = ({ $talk } bicara)
calls-running-for = { $minutes ->
    [0] kurang dari semenit sejauh ini
   *[other] { $minutes } menit sejauh ini
}
calls-connection = Koneksi
calls-connection-good = Baik
calls-connection-fair = Cukup
calls-connection-poor = Buruk
calls-minutes = Menit
calls-minutes-used = { $used } terpakai
calls-minutes-held = { $held } dicadangkan
calls-ai-cost = Biaya AI
calls-metadata = Metadata
calls-id = ID
calls-version = versi { $version }
calls-draft = dicoba dengan pengaturan yang belum disimpan
calls-timeline = Percakapan
calls-rang = Panggilan masuk
calls-was-answered = Agen menjawab
calls-was-joined = Penelepon disambungkan ke petugas
calls-over = Panggilan berakhir
calls-summary = Ringkasan
calls-function = Fungsi
calls-function-ok = menjawab
calls-arguments = Argumen
calls-result = Hasil
calls-cut = Hanya awal panggilan ini yang ditampilkan. Selengkapnya ada di API.
calls-from-the-ring = Dari awal
calls-what-followed = Kelanjutannya
calls-webhooks = Webhook
calls-webhooks-delivered = { $count } diterima
calls-webhooks-waiting = { $count } menunggu
calls-webhooks-failed = { $count } gagal
calls-webhooks-more = Dan { $count } lagi, yang ada di halaman webhook.
calls-delivery-pending = menunggu
calls-delivery-succeeded = diterima
calls-delivery-failed = gagal
calls-webhook-gone = webhook yang sudah dihapus
calls-attempts = { $count ->
   *[other] { $count } percobaan
}
calls-next-attempt = berikutnya

calls-hangup = Akhiri panggilan
calls-hangup-title = Akhiri panggilan ini?
calls-hangup-words = Penelepon diputus dalam beberapa detik, di tengah kalimat sekalipun.
calls-transfer = Alihkan
calls-transfer-title = Alihkan panggilan ini
calls-transfer-to = Ke nomor
calls-transfer-hint = Misalnya 0812 3456 7890, atau dengan + dan kode negara. Penelepon disambungkan ke nomor itu, dan agen keluar dari panggilan.
calls-erase = Hapus data pribadi
calls-erase-title = Hapus data pribadi dalam panggilan ini?
calls-erase-words = Nomor penelepon, transkrip dan ringkasannya, argumen dan hasil fungsi, serta metadata dihapus, juga dari peristiwa yang disimpan. Pengiriman yang menunggu dibatalkan.
calls-erase-stays = Kapan panggilan terjadi dan berapa biayanya tetap tersimpan. Yang sudah diterima server Anda menjadi tanggungan Anda untuk dihapus.
calls-erase-final = Ini tidak dapat dibatalkan.
calls-is-over = Panggilan sudah berakhir.
calls-still-runs = Panggilan masih berlangsung. Akhiri dahulu.

## Mails

mails-invitation-subject = { $inviter } mengundang Anda ke { $tenant }
mails-invitation =
    Halo { $name },

    { $inviter } mengundang Anda ke dasbor { $tenant }. Dengan tautan ini Anda masuk dan membuat kata sandi baru:

    { $link }

    Tautan ini berlaku sekali, sampai { $until }. Tidak menunggu email ini? Abaikan saja: tanpa tautan ini tidak ada yang bisa masuk.
mails-low-credit-subject = { $tenant }: sisa { $minutes } menit
mails-low-credit =
    Halo { $name },

    Sisa saldo { $tenant } untuk panggilan adalah { $minutes } menit. Email ini dikirim bila sisa kurang dari { $threshold } menit. Bila saldo habis, panggilan tidak dijawab lagi. Pemakaian per hari:

    { $page }
mails-disabled-webhook-subject = { $tenant }: webhook ke { $host } dimatikan
mails-disabled-webhook =
    Halo { $name },

    { $gone ->
        [true] Server Anda menjawab bahwa webhook ke { $host } sudah tidak ada (410), jadi webhook itu dimatikan.
       *[other] Webhook ke { $host } terus gagal dan sudah dimatikan.
    } Tidak ada lagi yang dikirim ke server Anda. Sebabnya, dan cara menyalakan webhook kembali:

    { $page }
mails-switch-off = Anda menerima email ini sebagai pemilik. Email seperti ini dapat dimatikan di sini: { $page }

## Tombol di situs web

widget-start = Bicara dengan kami
widget-notice = Anda berbicara dengan asisten AI.
widget-ready = Silakan bicara, kami mendengarkan.
widget-ended = Panggilan selesai.
widget-lost = Sambungan terputus. Silakan coba lagi.
widget-refused = Mikrofon diblokir. Izinkan di samping alamat halaman, lalu coba lagi.
widget-press = Tekan tombol untuk berbicara.
widget-limit = Anda sudah sering menelepon dalam satu jam terakhir. Silakan coba lagi nanti.
widget-unavailable = Kami belum dapat menerima panggilan saat ini. Silakan coba lagi nanti.
widget-caller = Anda
widget-agent = Asisten
widget-title = Panggilan suara

## Widget

widgets-title = Tombol untuk situs web
widgets-words = Tombol di situs web Anda agar pengunjung dapat berbicara dengan agen, tanpa telepon.
widgets-none = Belum ada tombol
widgets-none-words = Buat satu, lalu salin satu baris ke situs web Anda.
widgets-new = Tombol baru
widgets-new-words = Pilih siapa yang menjawab, dan di situs web mana tombol boleh tampil.
widgets-no-agent = Buat agen dahulu
widgets-no-agent-words = Tombol membutuhkan agen yang menjawab, dan Anda belum punya agen.
widgets-create = Buat tombol
widgets-too-many = Anda dapat memiliki paling banyak { $most } tombol. Hapus satu dahulu.
widgets-name = Nama
widgets-name-hint = Untuk Anda sendiri. Pengunjung tidak melihatnya.
widgets-agent = Agen
widgets-origins = Situs web
widgets-origins-hint = Satu alamat per baris, misalnya https://toko.example.com. Tombol tidak tampil di situs web lain. Alamat harus memakai https, kecuali localhost.
widgets-per-visitor = Panggilan per pengunjung per jam
widgets-per-visitor-hint = Dihitung menurut alamat jaringan. Orang di satu kantor atau jaringan seluler bisa berbagi satu alamat.
widgets-concurrent = Pengunjung yang berbicara bersamaan
widgets-color = Warna tombol
widgets-color-hint = Tanda # dan enam angka atau huruf a sampai f, misalnya #0f766e.
widgets-texts = Kata-kata tombol
widgets-texts-words = Kosongkan untuk memakai kata bawaan, yang mengikuti bahasa pengunjung.
widgets-text-start = Tombol
widgets-text-notice = Keterangan di bawah tombol
widgets-text-connecting = Saat menyambung
widgets-text-ready = Saat agen sudah tersambung
widgets-text-end = Tombol untuk menutup
widgets-text-ended = Setelah panggilan
widgets-text-lost = Saat sambungan terputus
widgets-text-refused = Saat mikrofon diblokir
widgets-text-missing = Saat tidak ada mikrofon
widgets-text-press = Saat browser meminta tombol ditekan dahulu
widgets-text-limit = Setelah terlalu banyak panggilan
widgets-text-unavailable = Saat panggilan tidak mungkin
widgets-text-caller = Nama pengunjung
widgets-text-agent = Nama agen
widgets-text-title = Judul untuk pembaca layar
widgets-text-level = Nama pengukur suara, untuk pembaca layar
widgets-text-log = Nama percakapan, untuk pembaca layar
widgets-line = Baris untuk situs web Anda
widgets-line-words = Letakkan baris ini di halaman situs web Anda, sebelum </body>. Pembuat situs web menyebutnya "kode khusus" atau "kode sematan".
widgets-line-more = Dengan data-element="#id" tombol berada di dalam sebuah elemen halaman Anda, bukan di sudut. Dengan data-lang="id" tombol berbahasa Indonesia.
widgets-settings = Pengaturan
widgets-delete = Hapus
widgets-delete-title = Hapus tombol ini?
widgets-delete-words = Tombol hilang dari situs web berikut. Panggilan yang sedang berjalan tetap berlanjut. Ini tidak dapat dibatalkan.
