//! A bridge on threads of its own, for programs that do other work besides.
