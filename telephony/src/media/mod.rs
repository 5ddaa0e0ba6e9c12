//! The media of a call, pure: packets, order, codecs, resampling, playout, keys, voice detection.
